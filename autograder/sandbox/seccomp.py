"""The system calls that a box does without: a seccomp filter, written here as the BPF program that the kernel runs.

A deny list by families, as Docker and Flatpak have it, not an allow list: one learned from today's TensorFlow breaks an
honest student at the next glibc. What is newer than `NEWEST`, the last call that somebody has read about for this list,
does not exist in a box (ENOSYS, on which libraries fall back); nor do the calls of foreign ABIs (i386, x32). A denied
call fails, it kills nobody: in Python it is an OSError.

Written by hand, not by libseccomp: "newer than" cannot be said there (runc puts BPF of its own before libseccomp's for the
same reason), Debian's does not know this year's mount calls, and one library less has to be there. The numbers are
held against libseccomp's by tests/autograder/test_seccomp.py. See the kernel's seccomp_filter.rst and seccomp(2).

The trusted side writes the program, `Box.request` carries it, and the child installs it as its last step. Process 1 of
the box has it too: where student and grader are one user, /proc/1/mem would else be a way to run code without it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import cache

NEWEST = 469  # file_setattr, Linux 6.17: numbers from 424 on mean the same on every architecture
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*
ALLOW, ERRNO = 0x7FFF0000, 0x00050000  # SECCOMP_RET_*
LOAD, EQUAL, ABOVE, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06  # BPF, on 32-bit words
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
SET_MODE_FILTER, GET_ACTION_AVAIL, TSYNC = 1, 2, 1

# name: number on x86_64, on aarch64 (-1: there is none)
FAMILIES: dict[str, dict[str, tuple[int, int]]] = {
    "keys": {"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    "other processes": {
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "kcmp": (312, 272),
        "migrate_pages": (256, 238),
        "move_pages": (279, 239),
        "pidfd_getfd": (438, 438),
        "process_madvise": (440, 440),
        "process_mrelease": (448, 448),
    },
    "what is done to files that all boxes show": {  # and one would notice of another, as fast as it can count
        "inotify_init": (253, -1),
        "inotify_init1": (294, 26),
        "inotify_add_watch": (254, 27),
    },
    "the kernel's own machines": {
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "fanotify_init": (300, 262),
        "fanotify_mark": (301, 263),
        "syslog": (103, 116),
        "modify_ldt": (154, -1),
        "lookup_dcookie": (212, 18),
        "lsm_set_self_attr": (460, 460),
    },
    "namespaces and mounts": {
        "unshare": (272, 97),
        "setns": (308, 268),
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsconfig": (431, 431),
        "fsmount": (432, 432),
        "fspick": (433, 433),
        "mount_setattr": (442, 442),
        "open_tree_attr": (467, 467),
        "name_to_handle_at": (303, 264),
        "open_by_handle_at": (304, 265),
    },
    "the machine": {
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "reboot": (169, 142),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "acct": (163, 89),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
        "sethostname": (170, 161),
        "setdomainname": (171, 162),
        "vhangup": (153, 58),
        "iopl": (172, -1),
        "ioperm": (173, -1),
        "uselib": (134, -1),
        "ustat": (136, -1),
        "sysfs": (139, -1),
        "nfsservctl": (180, 42),
    },
}
ABSENT: dict[str, tuple[int, int]] = {  # answered as by a kernel without them: libraries have another way
    "clone3": (435, 435),  # its flags lie in memory, where no filter sees them; glibc takes clone
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),  # the machine has a number of events for all its users: fs.aio-max-nr
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_submit": (209, 2),
    "io_cancel": (210, 3),
    "io_pgetevents": (333, 292),
    "flock": (
        73,
        32,
    ),  # on a file that all boxes show, see above; HDF5, and so Keras, goes on without where there is none
    "memfd_secret": (447, 447),
    "statmount": (457, 457),
    "listmount": (458, 458),
}
UNCOUNTED: dict[str, tuple[int, int]] = {  # memory that no process and no file system shows: absent where it is watched
    "memfd_create": (319, 279),
    "shmget": (29, 194),
}
LOOKED_AT: dict[str, tuple[int, int]] = {  # their arguments decide
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "personality": (135, 92),
    "prctl": (157, 167),
}
MMAP = (9, 222)  # looked at, too, where memory is watched
SECCOMP = {"x86_64": 317, "aarch64": 277}
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
TERMINAL = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX type for another; TIOCSETD loads line disciplines
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16  # AF_*
STREAM, DATAGRAM, KIND = 1, 2, 0xF  # SOCK_*, and the bits that say it
# F_*: GETLK, OFD_GETLK, OFD_SETLK and OFD_SETLKW (/proc/locks shows these to everybody), SETLEASE, GETLEASE, NOTIFY. SETLK is
# left, for SQLite: a file that is shown can be locked for reading alone, and nobody sees it.
NOTICED = (5, 36, 37, 38, 1024, 1025, 1026)
PERSONALITIES = (0, 0xFFFFFFFF)  # Linux; "which one have I?"
PR_SET_DUMPABLE = 4  # to 0: a process's memory cannot be read off /proc any more
MAP_SHARED, MAP_ANONYMOUS = 0x1, 0x20  # MAP_SHARED_VALIDATE has the bit of the first

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


@cache
def program(machine: str = "", watched: bool = False) -> bytes:
    """The filter for this machine (or for "x86_64", "aarch64"), as `install` and bwrap's --seccomp take it: 8-byte steps.

    `watched`: memory is read off processes and file systems, for there is no control group that counts; so no memory is
    to be had that neither shows. Raises KeyError for other machines; see `problem`.
    """
    machine = machine or platform.machine()
    column = list(AUDIT).index(machine)
    steps = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, AUDIT[machine]), _refuse(errno.ENOSYS)]
    steps += [(LOAD, 0, 0, NUMBER), (ABOVE, 0, 1, NEWEST), _refuse(errno.ENOSYS)]  # an x32 number is above all
    absent = ABSENT | UNCOUNTED if watched else ABSENT
    for calls, error in [*((family, errno.EPERM) for family in FAMILIES.values()), (absent, errno.ENOSYS)]:
        for numbers in calls.values():
            if numbers[column] >= 0:
                steps += [(EQUAL, 0, 1, numbers[column]), _refuse(error)]
    looked_at = {LOOKED_AT[name]: block for name, block in _looks().items()}
    if watched:
        shared = [_argument(3), (AND, 0, 0, MAP_SHARED | MAP_ANONYMOUS), *_if(MAP_SHARED | MAP_ANONYMOUS, errno.EPERM)]
        looked_at[MMAP] = [*shared, _ALLOWED]
    for numbers, block in looked_at.items():
        steps += [(EQUAL, 0, len(block), numbers[column]), *block]
    return b"".join(struct.pack("=HBBI", *step) for step in [*steps, _ALLOWED])


def _looks() -> dict[str, list[Instruction]]:
    """What is done about the calls whose arguments decide. Each block ends in an answer."""
    clone = [_argument(0), (ANY_BIT, 0, 1, NEW_NAMESPACES), _refuse(errno.EPERM), _ALLOWED]
    ioctl = [_argument(1), *(step for number in TERMINAL for step in _if(number, errno.EPERM)), _ALLOWED]
    fcntl = [_argument(1), *(step for number in NOTICED for step in _if(number, errno.EPERM)), _ALLOWED]
    personality = [_argument(0), *(step for which in PERSONALITIES for step in _if(which)), _refuse(errno.EPERM)]
    pair = [_argument(0), *_if(UNIX), _refuse(errno.EAFNOSUPPORT)]
    route = [_argument(2), *_if(0), _refuse(errno.EPROTONOSUPPORT)]  # NETLINK_ROUTE: getifaddrs, if_nameindex
    internet = [_argument(1), (AND, 0, 0, KIND), *_if(STREAM), *_if(DATAGRAM), _refuse(errno.EPERM)]
    socket = [_argument(0), *_if(UNIX), (EQUAL, 0, len(route), NETLINK), *route]
    socket += [(EQUAL, 1, 0, INET), (EQUAL, 0, len(internet), INET6), *internet, _refuse(errno.EAFNOSUPPORT)]
    dumpable = [_argument(1), *_if(1), _refuse(errno.EPERM)]
    prctl = [_argument(0), (EQUAL, 0, len(dumpable), PR_SET_DUMPABLE), *dumpable, _ALLOWED]
    return {
        "clone": clone, "fcntl": fcntl, "ioctl": ioctl, "personality": personality, "prctl": prctl, "socketpair": pair,
        "socket": socket,
    }  # fmt: skip


def _refuse(error: int) -> Instruction:
    return (RETURN, 0, 0, ERRNO | error)


_ALLOWED: Instruction = (RETURN, 0, 0, ALLOW)


def _argument(number: int) -> Instruction:
    """Load an argument's lower half: all that the kernel itself reads of an int, on a little-endian machine."""
    return (LOAD, 0, 0, ARGUMENTS + 8 * number)


def _if(value: int, error: int = 0) -> list[Instruction]:
    """Where `value` is loaded: allow, or fail with `error`."""
    return [(EQUAL, 0, 1, value), _refuse(error) if error else _ALLOWED]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def install(filter: bytes) -> None:
    """Put every thread of this process, and all that it will start, under `filter` for good. Raises OSError.

    PR_SET_NO_NEW_PRIVS must be set.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(filter) // 8, filter)
    failed = libc.syscall(SECCOMP[platform.machine()], SET_MODE_FILTER, TSYNC, ctypes.byref(given))
    if failed:  # above 0 it is the thread that could not follow
        code = ctypes.get_errno() if failed < 0 else errno.EBUSY
        raise OSError(code, f"the filter of system calls was not installed: {os.strerror(code)}")


@cache
def problem() -> str:
    """Why system calls cannot be filtered here, with the mend; empty when they can."""
    machine = platform.machine()
    if machine not in AUDIT:
        return f"the sandbox filters system calls on {' and '.join(AUDIT)}, this is {machine}: grade on one of those"
    action = ctypes.c_uint32(ERRNO)
    if ctypes.CDLL(None).syscall(SECCOMP[machine], GET_ACTION_AVAIL, 0, ctypes.byref(action)):
        return "this kernel cannot filter system calls: it needs CONFIG_SECCOMP_FILTER (every distribution's has it)"
    return ""
