"""A program run as an ordinary user, who has no control groups, by root: for tests of what such a grader's boxes do.

The user is one that no account of this machine has. Where the interpreter lies in a folder that only root may enter, the
program sees, in a mount namespace of its own, that folder with nothing in it but the interpreter.
"""

import os
import subprocess
import sys
from pathlib import Path

USER = 47_110
SHOWN = """
set -e
closed=$1 base=$2 home=$3; shift 3
if [ -n "$closed" ]; then
    mount -t tmpfs -o mode=755 tmpfs "$home"
    mkdir "$home/base"
    mount --bind "$base" "$home/base"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$base"
    mount --bind "$home/base" "$base"
fi
exec setpriv --reuid={user} --regid={user} --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""


def available():
    """Whether a program can be run so: root may make mount namespaces here, and change its user."""
    if os.getuid() != 0:
        return False
    return (
        subprocess.run([*_prefix(Path("/mnt")), "true"], capture_output=True, check=False, timeout=30).returncode == 0
    )


def _closed(base):
    """The outermost folder above `base` that others than its owner may not enter; empty if there is none."""
    return next((str(each) for each in reversed(base.parents) if not each.stat().st_mode & 0o001), "")


def _prefix(home):
    base = Path(os.path.realpath(sys.base_prefix))
    script = SHOWN.replace("{user}", str(USER))
    return ["unshare", "-m", "sh", "-c", script, "sh", _closed(base), str(base), str(home)]


def command(home, *arguments):
    """The command line that runs `arguments`; `home` is an empty folder, the mount point of what is needed."""
    return [*_prefix(home), *map(str, arguments)]
