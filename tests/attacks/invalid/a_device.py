"""Hands in a device that never ends, or where it may make none a link to one."""

import os
import stat

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        except OSError:
            path.symlink_to("/dev/zero")

    return write
