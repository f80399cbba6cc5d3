"""Whether a box can be built here, as grading needs one, by building the smallest; and what an administrator may change.

User namespaces are what an ordinary user's box is made of: user_namespaces(7). Ubuntu keeps them from programs without a
profile since 23.10; others have a switch, or a number of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from across import _system

BWRAP = "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-user --unshare-pid --unshare-net --unshare-ipc true"
PROFILE = r"abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap {bwrap} flags=(unconfined) {{ userns, }}\n"
ALLOW_BWRAP = f"printf '{PROFILE}' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
SETTINGS = {  # below /proc/sys: the value that forbids, and what an administrator runs
    "kernel/apparmor_restrict_unprivileged_userns": ("1", ALLOW_BWRAP),
    "kernel/unprivileged_userns_clone": ("0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "sudo sysctl -w user.max_user_namespaces=15000"),
}
INSTALL = "install bubblewrap (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`)"
SYSCTL = Path("/proc/sys")


def problem() -> str:
    """Why no box can be built here, with the mend; empty where one was built. Takes some milliseconds."""
    if not _system.linux():
        return _system.NEEDS_LINUX
    if shutil.which("bwrap") is None:
        return INSTALL
    command = BWRAP.replace(" --unshare-user", "") if os.getuid() == 0 else BWRAP
    try:
        done = subprocess.run(command.split(), capture_output=True, text=True, timeout=20.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not run: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return f"bubblewrap cannot build one ({said[0]}){mend()}"


def mend() -> str:
    """What an administrator may run so that ordinary users' boxes can be built, after "; "; empty where nothing is known."""
    if os.getuid() == 0:
        return "; in a container: start it with --privileged, or allow it to mount and to make namespaces"
    for name, (forbids, command) in SETTINGS.items():
        try:
            found = (SYSCTL / name).read_text().strip()
        except OSError:
            continue
        if found == forbids:
            line = command.format(bwrap=shutil.which("bwrap") or "/usr/bin/bwrap")
            return f"; {name.replace('/', '.')} is {found}: ask an administrator to run: {line}"
    return "; in a container: let it make user namespaces (Docker: --security-opt seccomp=unconfined, systempaths=unconfined)"
