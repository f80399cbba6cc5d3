"""The filter of system calls: what it denies, on whom it lies, and that what a chapter does still works under it."""

import ctypes
import ctypes.util
import errno
import mmap
import os
import platform
import socket
import struct
from pathlib import Path

import courses
import pytest
from boxed import inside, needs_a_box
from small_course import CHECKS, CODE, NAME

from autograder.authoring import build
from autograder.engine import class_run
from autograder.job import forkserver
from autograder.probe import asking
from autograder.probe.asking import probe
from autograder.sandbox import boxes, seccomp

FILTERED = """
import os
from pathlib import Path

from across import fresh

@exercise("double")
def test_this_very_process_is_filtered(student):
    assert "Seccomp:\\t2" in Path("/proc/self/status").read_text(), "no filter on the checker"

@exercise("double")
def test_what_it_runs_afresh_is_filtered_and_in_its_box(student):
    beside, status = fresh.run(lambda: (os.getppid(), Path("/proc/self/status").read_text()))
    assert "Seccomp:\\t2" in status, "no filter on what a check runs afresh"
    assert f"PPid:\\t{os.getpid()}\\n" in Path(f"/proc/{beside}/status").read_text(), "the server is not the box's"
"""
DENIED = {name: numbers for family in seccomp.FAMILIES.values() for name, numbers in family.items()}


def decision(machine, number, *arguments, audit=None, watched=False):
    """What the filter answers, by running its program as the kernel does: 0 (allowed) or an errno."""
    data = struct.pack("=iIQ6Q", number, audit or seccomp.AUDIT[machine], 0, *(arguments + (0,) * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", seccomp.program(machine, watched)))
    at, loaded = 0, 0
    while True:
        code, true, false, operand = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return 0 if operand == seccomp.ALLOW else operand & 0xFFFF
        if code == seccomp.LOAD:
            loaded = struct.unpack_from("=I", data, operand)[0]
        elif code == seccomp.AND:
            loaded &= operand
        else:
            held = {
                seccomp.EQUAL: loaded == operand,
                seccomp.ABOVE: loaded > operand,
                seccomp.ANY_BIT: loaded & operand != 0,
            }
            at += true if held[code] else false


def under_filter(function):
    """What `function` returns (an int) in a child that has the filter and nothing else of a box."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
            seccomp.install(seccomp.program())
            os.write(write, str(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as said:
        return int(said.read())


@pytest.mark.parametrize("machine", seccomp.AUDIT)
def test_the_numbers_are_those_that_libseccomp_knows(machine):
    found = ctypes.util.find_library("seccomp")
    if found is None:
        pytest.skip("libseccomp is not here to compare with")
    library, column = ctypes.CDLL(found), list(seccomp.AUDIT).index(machine)
    more = {"seccomp": tuple(seccomp.SECCOMP.values()), "mmap": seccomp.MMAP}
    tables = {**DENIED, **seccomp.ABSENT, **seccomp.UNCOUNTED, **seccomp.LOOKED_AT, **more}
    known = {n: library.seccomp_syscall_resolve_name_arch(seccomp.AUDIT[machine], n.encode()) for n in tables}
    wrong = {name: n for name, n in known.items() if n >= 0 and n != tables[name][column]}
    assert wrong == {}
    assert sum(number >= 0 for number in known.values()) > 50  # it has been compared with something


@pytest.mark.parametrize("machine", seccomp.AUDIT)
def test_every_other_call_up_to_the_newest_is_allowed(machine):
    column = list(seccomp.AUDIT).index(machine)
    refused = {n: decision(machine, n) for n in range(seccomp.NEWEST + 1) if decision(machine, n)}
    eperm = {numbers[column]: errno.EPERM for numbers in DENIED.values() if numbers[column] >= 0}
    enosys = {numbers[column]: errno.ENOSYS for numbers in seccomp.ABSENT.values()}
    families = {seccomp.LOOKED_AT[name][column]: errno.EAFNOSUPPORT for name in ("socket", "socketpair")}  # AF_UNSPEC
    assert refused == eperm | enosys | families


@pytest.mark.parametrize("machine", seccomp.AUDIT)
def test_what_is_newer_or_of_another_architecture_does_not_exist(machine):
    read = {"x86_64": 0, "aarch64": 63}[machine]
    assert decision(machine, read) == 0
    assert decision(machine, seccomp.NEWEST + 1) == errno.ENOSYS
    assert decision(machine, 0x40000000 | read) == errno.ENOSYS  # x32
    assert decision(machine, read, audit=0x40000003) == errno.ENOSYS  # i386
    assert decision(machine, read, audit=0x40000028) == errno.ENOSYS  # arm


@pytest.mark.parametrize("machine", seccomp.AUDIT)
def test_arguments_decide_about_clones_sockets_terminals_and_personalities(machine):
    column = list(seccomp.AUDIT).index(machine)

    def asked(name, *arguments):
        return decision(machine, seccomp.LOOKED_AT[name][column], *arguments)

    assert asked("clone", 0x3D0F00) == 0  # a thread, as glibc makes it
    assert asked("clone", 17) == 0  # a process
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert asked("clone", bit | 17) == errno.EPERM
    nonblocking = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            assert asked("socket", family, kind | nonblocking) == 0
    assert asked("socket", socket.AF_NETLINK, socket.SOCK_RAW, 0) == 0  # the names of interfaces
    assert asked("socket", socket.AF_NETLINK, socket.SOCK_RAW, 9) == errno.EPROTONOSUPPORT  # audit
    assert asked("socket", socket.AF_INET, socket.SOCK_RAW, 1) == errno.EPERM
    assert asked("socket", socket.AF_INET6, socket.SOCK_SEQPACKET) == errno.EPERM  # SCTP
    for family in (
        3,
        9,
        15,
        17,
        21,
        29,
        30,
        31,
        38,
        40,
        44,
    ):  # ax25, x25, key, packet, rds, can, tipc, bt, alg, vsock, xdp
        assert asked("socket", family, socket.SOCK_STREAM) == errno.EAFNOSUPPORT
    assert asked("socketpair", socket.AF_UNIX, socket.SOCK_STREAM) == 0
    assert asked("socketpair", 30, socket.SOCK_STREAM) == errno.EAFNOSUPPORT
    assert asked("ioctl", 0, 0x5413) == 0  # the window's size
    for number in (0x5412, 0x541C, 0x5423, 0x5412 | 1 << 32):  # an int: the upper half is nothing
        assert asked("ioctl", 0, number) == errno.EPERM
    shown_by_all = (5, 36, 37, 38, 1024, 1025, 1026)  # locks that others could see, leases, dnotify
    assert {asked("fcntl", 3, command) for command in shown_by_all} == {errno.EPERM}
    assert [asked("fcntl", 3, command) for command in (0, 1, 2, 3, 4, 6, 7, 1030, 1033)] == [0] * 9  # SETLK for SQLite
    assert [asked("personality", which) for which in (0, 0xFFFFFFFF)] == [0, 0]
    assert asked("personality", 0x0040000) == errno.EPERM  # addresses that can be foretold
    assert asked("prctl", 4, 0) == asked("prctl", 4, 2) == errno.EPERM  # not to be looked at any more
    assert [asked("prctl", option, 1) for option in (4, 15)] == [0, 0]  # to be looked at; a name


@pytest.mark.parametrize("machine", seccomp.AUDIT)
def test_where_memory_is_watched_none_is_to_be_had_that_nobody_sees(machine):
    column = list(seccomp.AUDIT).index(machine)
    for numbers in seccomp.UNCOUNTED.values():
        assert decision(machine, numbers[column]) == 0
        assert decision(machine, numbers[column], watched=True) == errno.ENOSYS
    private, file, shared, validated = 0x22, 0x01, 0x21, 0x23
    asked = {
        flags: decision(machine, seccomp.MMAP[column], 0, 4096, 3, flags, watched=True) for flags in (private, file)
    }
    assert asked == {private: 0, file: 0}
    for flags in (shared, validated):
        assert decision(machine, seccomp.MMAP[column], 0, 4096, 3, flags) == 0
        assert decision(machine, seccomp.MMAP[column], 0, 4096, 3, flags, watched=True) == errno.EPERM


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a matter of x86_64")
def test_the_kernel_refuses_the_old_abi():
    def keyctl_of_i386():
        code = bytes.fromhex("53 b8 20 01 00 00 31 db 31 c9 31 d2 cd 80 5b c3")  # eax = 288: keyctl, by int 0x80
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return -ctypes.CFUNCTYPE(ctypes.c_int)(address)()

    if not Path("/proc/sys/abi/vsyscall32").exists():
        pytest.skip("this kernel has no 32-bit system calls at all")
    assert under_filter(keyctl_of_i386) == errno.ENOSYS


def test_an_unknown_machine_is_one_line_with_the_mend(monkeypatch):
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
    seccomp.problem.cache_clear()
    try:
        assert "this is riscv64: grade on one of those" in seccomp.problem()
        assert "\n" not in seccomp.problem()
    finally:
        seccomp.problem.cache_clear()


@needs_a_box
def test_no_box_is_built_where_calls_cannot_be_filtered(monkeypatch):
    monkeypatch.setattr(seccomp, "problem", lambda: "this kernel cannot filter system calls")
    assert boxes.problem() == "this kernel cannot filter system calls"


@needs_a_box
def test_a_box_whose_filter_is_refused_is_not_entered(monkeypatch):
    request = boxes.Box.request
    monkeypatch.setattr(boxes.Box, "request", lambda box: {**request(box), "filter": "ff" * 8})
    said, code, _ = inside(lambda: "in")
    assert (said, code != 0) == (None, True)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return courses.write(tmp_path_factory.mktemp("course"), NAME, CODE, CHECKS + FILTERED, ["tensorflow"])


@pytest.fixture(scope="module")
def kernel(course):
    """A student's kernel in a real box, of a course of one tiny chapter."""
    with courses.kernel(forkserver.servers(course, forkserver.make_rubric(course, NAME))) as started:
        yield started


@pytest.fixture
def student(kernel):
    return asking.Student(asking.by_socket(kernel.questions), deadline=90.0)


@probe
def filters(student):
    import pathlib
    import subprocess

    texts = [pathlib.Path(path).read_text() for path in ("/proc/self/status", "/proc/1/status")]
    texts.append(subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout)
    return [line.split()[1] for text in texts for line in text.splitlines() if line.startswith("Seccomp:")]


@needs_a_box
def test_a_students_kernel_its_children_and_process_1_are_filtered(student):
    assert student.ask(filters) == ["2", "2", "2"]


@needs_a_box
def test_a_checker_is_filtered(course, kernel):
    rubric = forkserver.make_rubric(course, NAME)
    assert class_run.try_reference(course, rubric, build.solution_source(course, NAME)).points == 5


@probe
def computed(student):
    return float(tf.reduce_sum(tf.linalg.matmul(tf.ones([8, 8]), tf.ones([8, 8]))))  # noqa: F821


@probe
def drawn(student):
    import io

    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([1, 2, 3])
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()[:4]


@probe
def stored(student):
    import sqlite3

    with sqlite3.connect("/box/a.db") as one:
        one.execute("create table t (x)")
        one.execute("insert into t values (6)")
    return sqlite3.connect("/box/a.db").execute("select 7 * x from t").fetchone()[0]


@probe
def weights_kept(student):
    import h5py

    with h5py.File("/box/a.weights.h5", "w") as one:
        one["x"] = 6
    with h5py.File("/box/a.weights.h5") as one:
        return 7 * int(one["x"][()])


@probe
def side_by_side(student):
    import concurrent.futures
    import multiprocessing.shared_memory
    import os
    import subprocess
    import threading

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        threads = sum(pool.map(lambda n: threading.active_count() > 1, range(8)))
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=64)
    shared.buf[0] = 7
    if os.fork() == 0:
        shared.buf[0] = 8
        os._exit(0)
    os.wait()
    seen = shared.buf[0]
    shared.close()
    shared.unlink()
    return [threads, seen, subprocess.run("echo $((6 * 7))", shell=True, capture_output=True, text=True).stdout]


@probe
def on_the_loopback(student):
    import asyncio
    import concurrent.futures
    import socket

    async def echo():
        async def answer(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        said = await reader.readline()
        writer.close()
        server.close()
        return said

    with concurrent.futures.ThreadPoolExecutor(1) as pool:  # the kernel's own loop runs in this thread
        said = pool.submit(lambda: asyncio.run(echo())).result()
    return [said, [name for _, name in socket.if_nameindex()], socket.getaddrinfo("localhost", 80)[0][4][1]]


@probe
def over_grpc(student):
    from across import fresh

    def product():
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)
        server = tf.compat.v1.train.Server.create_local_server(config=config)
        with tf.Graph().as_default(), tf.compat.v1.Session(server.target, config=config) as session:
            return [server.target.split(":")[0], float(session.run(tf.constant(6.0) * 7.0))]

    return fresh.run(product, timeout=60)


DOES = [
    (computed, 512.0),
    (drawn, b"\x89PNG"),
    (stored, 42),
    (weights_kept, 42),
    (side_by_side, [8, 8, "42\n"]),
    (on_the_loopback, [b"hello\n", ["lo"], 80]),
    (over_grpc, ["grpc", 42.0]),
]


@needs_a_box
@pytest.mark.parametrize(("what", "gives"), DOES, ids=[each.name for each, _ in DOES])
def test_what_a_chapter_does_works_under_it(student, what, gives):
    assert student.ask(what) == gives


@probe
def beside(student):
    import os

    from across import fresh

    def look():
        import os

        def status(pid):
            with open(f"/proc/{pid}/status") as file:
                return dict(line.rstrip("\n").split(":\t", 1) for line in file)

        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        with open("/proc/self/cgroup") as file:
            groups = file.read()
        return status(os.getpid()), groups, [os.readlink(link) for link in links if os.path.lexists(link)]

    def status_of_server():
        import os

        with open(f"/proc/{os.getppid()}/status") as file:
            return file.read()

    with open("/proc/self/status") as file:
        here = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    with open("/proc/self/cgroup") as file:
        groups = file.read()
    there, its_groups, links = fresh.run(look)
    shed = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    same = {key: (here[key], there[key]) for key in shed if here[key] != there[key]}
    sockets = [link for link in links if link.startswith("socket:")]
    return [same, groups == its_groups, len(sockets), f"\nPPid:\t{os.getpid()}\n" in fresh.run(status_of_server)]


@needs_a_box
def test_a_fresh_process_is_one_of_the_kernels_own_in_all_that_it_may(student):
    """The same user, rights, filter and groups; of sockets its own connection: not the one on which the kernel is asked."""
    assert student.ask(beside) == [{}, True, 1, True]


@probe
def refused(student, numbers):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    said = {}
    for name, number in numbers.items():
        arguments = [ctypes.c_long(-1)] * 6
        failed = libc.syscall(ctypes.c_long(number), *arguments) == -1
        said[name] = ctypes.get_errno() if failed else 0
    return said


@needs_a_box
def test_a_student_gets_an_error_for_each_call_and_lives(student):
    column = list(seccomp.AUDIT).index(platform.machine())
    numbers = {name: n[column] for name, n in {**DENIED, **seccomp.ABSENT}.items() if n[column] >= 0}
    said = student.ask(refused, numbers=numbers)
    assert said == {name: errno.ENOSYS if name in seccomp.ABSENT else errno.EPERM for name in numbers}
    assert student.ask(computed) == 512.0
