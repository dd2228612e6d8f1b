"""What the packages' own scripts would have set up; they need a running system, this does not."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from branchpoint_vmruntime.image.native import NativeRunner

FOLDERS = (
    ("dev", 0o755), ("etc/opt", 0o755), ("media", 0o755), ("mnt", 0o755), ("opt", 0o755),
    ("proc", 0o755), ("root", 0o700), ("run", 0o755), ("srv", 0o755), ("sys", 0o755),
    ("tmp", 0o1777), ("usr/local/bin", 0o755), ("usr/local/etc", 0o755),
    ("usr/local/games", 0o755), ("usr/local/include", 0o755),
    ("usr/local/lib", 0o755), ("usr/local/sbin", 0o755), ("usr/local/share", 0o755),
    ("usr/local/src", 0o755), ("var/cache/apt/archives/partial", 0o755),
    ("var/lib/apt/lists/partial", 0o755), ("var/log", 0o755), ("var/mail", 0o2775),
    ("var/opt", 0o755), ("var/tmp", 0o1777),
)  # fmt: skip
LINKS = (
    ("etc/dpkg/origins/default", "debian"),
    ("etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    ("etc/mtab", "/proc/self/mounts"),
    ("var/lock", "/run/lock"),
    ("var/run", "/run"),
    ("var/spool/mail", "../mail"),
)
COPIES = (
    ("usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("usr/share/base-files/dot.profile", "root/.profile"),
    ("usr/share/base-files/motd", "etc/motd"),
    ("usr/share/base-files/profile", "etc/profile"),
    ("usr/share/base-passwd/group.master", "etc/group"),
    ("usr/share/base-passwd/passwd.master", "etc/passwd"),
    ("usr/share/debianutils/shells", "etc/shells"),
    ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ("usr/share/readline/inputrc", "etc/inputrc"),
)
TEXTS = (
    ("etc/environment", ""),
    ("etc/fstab", "# The root is an overlay that the initramfs mounts.\n"),
    ("etc/hostname", "branchpoint\n"),
    ("etc/hosts", "127.0.0.1 localhost branchpoint\n::1 localhost ip6-localhost ip6-loopback\n"),
    ("etc/default/locale", "LANG=C.UTF-8\n"),
    ("etc/resolv.conf", ""),
    ("etc/timezone", "Etc/UTC\n"),
    ("var/log/btmp", ""),
    ("var/log/lastlog", ""),
    ("var/log/wtmp", ""),
)
ALTERNATIVES = (
    ("/usr/bin/awk", "awk", "/usr/bin/mawk", 5),
    ("/usr/bin/nawk", "nawk", "/usr/bin/mawk", 5),
    ("/usr/bin/editor", "editor", "/bin/nano", 40),
    ("/usr/bin/pico", "pico", "/bin/nano", 10),
    ("/usr/bin/lzma", "lzma", "/usr/bin/xz", 20),
    ("/bin/nc", "nc", "/bin/nc.openbsd", 50),
    ("/bin/netcat", "netcat", "/bin/nc.openbsd", 50),
    ("/usr/bin/pager", "pager", "/bin/more", 50),
    ("/usr/bin/pager", "pager", "/usr/bin/less", 77),
    ("/usr/sbin/rmt", "rmt", "/usr/sbin/rmt-tar", 50),
    ("/usr/bin/which", "which", "/usr/bin/which.debianutils", 0),
)
# What pam-auth-update makes of the one profile "unix", with comments left out.
PAM = {
    "account": (
        "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\n"
        "account requisite pam_deny.so\naccount required pam_permit.so\n"
    ),
    "auth": (
        "auth [success=1 default=ignore] pam_unix.so nullok\n"
        "auth requisite pam_deny.so\nauth required pam_permit.so\n"
    ),
    "password": (
        "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n"
        "password requisite pam_deny.so\npassword required pam_permit.so\n"
    ),
    "session": (
        "session [default=1] pam_permit.so\nsession requisite pam_deny.so\n"
        "session required pam_permit.so\nsession required pam_unix.so\n"
    ),
    "session-noninteractive": (
        "session [default=1] pam_permit.so\nsession requisite pam_deny.so\n"
        "session required pam_permit.so\nsession required pam_unix.so\n"
    ),
}


def configure_tree(root: Path, sources: str) -> None:
    """Make of a tree of unpacked packages one that is a machine; `sources` is for its apt."""
    _write_files(root)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(sources)
    write_accounts(root)
    for name, text in PAM.items():
        (root / f"etc/pam.d/common-{name}").write_text(text)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    _write_certificates(root, certificates)
    native = NativeRunner(root)
    _set_alternatives(root, native)
    write_library_cache(root, native)


def _write_files(root: Path) -> None:
    for name, mode in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(mode)
    for name, source in LINKS:
        _replace(root / name, lambda place, source=source: place.symlink_to(source))
    for source, name in COPIES:
        shutil.copyfile(root / source, root / name)
    for name, text in TEXTS:
        (root / name).write_text(text)
    with (root / "etc/shells").open("a") as shells:
        shells.write("/bin/sh\n/bin/dash\n/usr/bin/dash\n/bin/bash\n/usr/bin/bash\n")


def _replace(place: Path, make: Callable[[Path], None]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    place.unlink(missing_ok=True)
    make(place)


def write_accounts(root: Path) -> None:
    """Debian's standard accounts without a password, and the one apt downloads as."""
    passwd, group = root / "etc/passwd", root / "etc/group"
    with passwd.open("a") as file:
        file.write("_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n")
    # The masters mark the password as disabled in place; with a shadow file it belongs there.
    passwd.write_text(shadowed(passwd.read_text()))
    group.write_text(shadowed(group.read_text()))
    for source, target, rest in (
        (passwd, "shadow", ":20089:0:99999:7:::"),
        (group, "gshadow", "::"),
    ):
        names = [line.split(":")[0] for line in source.read_text().splitlines()]
        place = root / "etc" / target
        place.write_text("".join(f"{name}:*{rest}\n" for name in names))
        place.chmod(0o640)


def shadowed(accounts: str) -> str:
    r"""The same accounts with their passwords left to the shadow file.

    >>> shadowed("root:*:0:0:root:/root:/bin/bash\n")
    'root:x:0:0:root:/root:/bin/bash\n'
    """
    return "".join(
        ":".join([name, "x", *rest]) + "\n"
        for name, _, *rest in (line.split(":") for line in accounts.splitlines())
    )


def _write_certificates(root: Path, certificates: list[Path]) -> None:
    """The bundle, and a link to each certificate, as update-ca-certificates makes them."""
    folder = root / "etc/ssl/certs"
    folder.mkdir(parents=True, exist_ok=True)
    base = root / "usr/share/ca-certificates"
    names = [str(path.relative_to(base)) for path in certificates]
    (root / "etc/ca-certificates.conf").write_text("".join(f"{name}\n" for name in names))
    with (folder / "ca-certificates.crt").open("w") as bundle:
        for path in certificates:
            bundle.write(path.read_text().rstrip("\n") + "\n")
    for path in certificates:
        link = folder / f"{path.stem.replace(' ', '_')}.pem"
        link.symlink_to(os.path.relpath(path, folder))
    NativeRunner(root).run(
        "usr/bin/openssl", "rehash", folder, purpose="index the guest's certificates"
    )


def _set_alternatives(root: Path, native: NativeRunner) -> None:
    for link, name, target, priority in ALTERNATIVES:
        native.run(
            "usr/bin/update-alternatives", "--quiet", "--root", root,
            "--install", link, name, target, str(priority),
            purpose=f"set the guest's alternative for {name}",
        )  # fmt: skip
    (root / "var/log/alternatives.log").unlink()


def write_library_cache(root: Path, native: NativeRunner) -> None:
    """Let the loader find libraries without looking for them."""
    native.run("usr/sbin/ldconfig", "-X", "-r", root, purpose="write the guest's library cache")
    # A speed-up for the next ldconfig that holds the inode numbers of this host.
    (root / "var/cache/ldconfig/aux-cache").unlink(missing_ok=True)
