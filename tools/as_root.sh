# Sourced, not run.

# What to put before a command to run it as root without being asked; fails if that cannot be.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        echo env
    elif sudo -n true 2>/dev/null; then
        echo "sudo -n"
    else
        return 1
    fi
}

# Install packages of the distribution, if that can be done without asking.
install_packages() {
    local root
    root=$(as_root) || return 1
    # A host that has just come up installs its updates, and would refuse at once. Twice quiet, apt
    # still shows what dpkg does.
    $root apt-get -qq update && $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install \
        -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" >/dev/null
}
