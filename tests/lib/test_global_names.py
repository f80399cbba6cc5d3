"""Which names a cell reads and binds is told by Python's rules of scopes, alike by every version of Python."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from across._process.global_names import binds, binds_surely, needs, only_defines, uses

# an object whose end gives way to another thread is collected while a tree is made
AT_ONCE = """
import gc, sys, threading, time
from across._process.global_names import parsed

class Loop:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0)

def deep(depth, wrong):
    if depth:
        return deep(depth - 1, wrong)
    until = time.monotonic() + 2
    while time.monotonic() < until and not wrong:
        Loop()
        try:
            parsed("f(a, [1, {2: (3, b)}] if a > (b and c) else d)\\n" * 60)
        except SystemError as error:
            wrong.append(error)

sys.setswitchinterval(1e-6)
gc.set_threshold(50)
wrong = []
threads = [threading.Thread(target=deep, args=(7 * n, wrong)) for n in range(4)]
for each in threads: each.start()
for each in threads: each.join()
sys.exit(str(wrong[0]) if wrong else 0)
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for name in names:\n    print(name)", {"names", "print"}),
        ("with open(path) as file:\n    file.read()", {"open", "path"}),
        ("x = 1\nprint(x)", {"print"}),
        ("print(x)\nx = 1", {"print", "x"}),
        ("if a:\n    x = 1\nprint(x)", {"a", "print", "x"}),
        ("def f():\n    return x\nx = 1", {"x"}),
        ("x = 1\ndef f():\n    return x", {"x"}),
        ("[y for y in rows]", {"rows"}),
        ("x += 1", {"x"}),
        ("x = 0\nx += 1", set()),
        ("def f():\n    x = 0\n    x += 1", set()),
        ("def f():\n    global x\n    x += 1", {"x"}),
        ("x = 1\n[x for _ in [1]]", set()),
        ("[x for _ in [1]]\nx = 1", {"x"}),
        ("x = 1\ny = (x for _ in [1])", {"x"}),
        ("x = 1\ny = [lambda: x for _ in [1]]", {"x"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\nprint(x)", {"a", "print"}),
        ("if a:\n    x = 1\n    print(x)", {"a", "print"}),
        ("while a:\n    x = 1\nprint(x)", {"a", "print", "x"}),
        ("try:\n    x = f()\nexcept E as e:\n    print(e)\nprint(x)", {"E", "f", "print", "x"}),
        ("[y for y in rows]\nprint(y)", {"rows", "print", "y"}),
        ("[y := z for z in rows]\nprint(y)", {"rows", "print"}),
        ("[[z for z in y] for y in rows]", {"rows"}),
        ("rows = 1\n[y for y in f([z for z in rows])]", {"f"}),
        ("rows = 1\n[y for y in f(lambda: rows)]", {"f", "rows"}),
        ("match a:\n    case 1:\n        x = 1\nprint(x)", {"a", "print", "x"}),
        ("%%timeit\nf(x)", {"timeit", "f", "x"}),
        ("%time f\ny = g(1)", {"time", "f", "g"}),
        ("for i in q:\n    r = i\nprint(r)", {"print", "q"}),
        ("class A:\n    n = n", {"n"}),
        ("n = 1\ndef f(m):\n    class A:\n        m = m + n\n    return A", {"m", "n"}),
        ("def f(m):\n    class A:\n        k = m\n        def g(self):\n            return k\n    return A", {"k"}),
        ("def f():\n    x = 0\n    def g():\n        nonlocal x\n        x += y\n    return g", {"y"}),
        ("def f():\n    x = 0\n    def g():\n        global x\n        return x\n    return g", {"x"}),
        ("def f(a, b=c, *d, e: g, **h) -> k:\n    return a, b, d, e, h", {"c", "g", "k"}),
        ("def f():\n    return [a + b for a in c for b in a if (d := b)] and d", {"c"}),
        ("class A:\n    n = 1\n    m = [n for _ in range(n)]", {"n", "range"}),
        ("match a:\n    case {'b': [c, *d], **e} as f if c:\n        d, e, f", {"a", "c", "d", "e", "f"}),
        ("f = lambda a, b=c: lambda d: a + d + e", {"c", "e"}),
        ("async def f(a):\n    return [b async for b in a if await b]", set()),
        ("eval('a')", {"eval", "a"}),
    ],
)
def test_a_cell_reads_what_it_has_not_bound_itself_before_and_whatever_its_functions_read(source, names):
    assert needs(source) == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x = 1\ndef f():\n    return x\nf()", set()),
        ("x = 1\ny = (x for _ in [1])", set()),
        ("def f():\n    return x\nf()\nx = 1", {"x"}),
        ("def f():\n    return g()\ndef g():\n    return x\nx = 1", set()),
        ("def f():\n    return g()\ny = f()\ndef g(): pass", {"g"}),
        ("@d\ndef f():\n    return f()", {"d", "f"}),
        ("if a:\n    x = 1\ndef f():\n    return x", {"a", "x"}),
    ],
)
def test_a_closed_cells_functions_mean_what_it_binds_before_anything_can_call_them(source, names):
    assert needs(source, closed=True) == names


@pytest.mark.parametrize(
    ("source", "only"),
    [
        ("def f(a, b=(1, 'x')) -> None:\n    g()", True),
        ("'Said.'\nSIZE = [1, 2]\n\nclass A:\n    n = 1\n    def f(self):\n        g()", True),
        ("# nothing", True),
        ("def f(a=g()):\n    pass", False),
        ("def f(a=b):\n    pass", False),
        ("def f(a: g()):\n    pass", False),
        ("@g\ndef f():\n    pass", False),
        ("class A(B):\n    pass", False),
        ("class A:\n    n = g()", False),
        ("a.b = 1", False),
        ("a[0] = 1", False),
        ("a = b", False),
        ("a = f'{b}'", False),
        ("import a", False),
        ("f()", False),
        ("%magic", False),
    ],
)
def test_a_cell_that_only_defines_runs_nothing_and_cannot_fail(source, only):
    assert only_defines(source) is only


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a.b = c[0] = d, *e = 1, 2", {"d", "e"}),
        ("import a.b, c as d\nfrom e import f as g, h\nfrom i import *", {"a", "d", "g", "h"}),
        ("def f(a):\n    global b\n    b = c = 1\nclass A:\n    d = 1", {"f", "b", "A"}),
        ("[a := b for b in c]\n(d for d in e)\nlambda f: (g := f)", {"a"}),
        ("try:\n    pass\nexcept E as a:\n    pass", {"a"}),
        ("with b as (c, d): pass\nfor e, f in g: h = 1", {"c", "d", "e", "f", "h"}),
        ("match a:\n    case {'b': [c, *d], **e} as f: pass", {"c", "d", "e", "f"}),
        ("a: int\nb: int = 1\nc += 1", {"b", "c"}),
        ("%time a = 1\nb = 1", {"time", "a", "b"}),
    ],
)
def test_what_a_cell_binds(source, names):
    assert binds(source) == names


def test_only_what_is_bound_come_what_may_is_bound_surely():
    assert binds_surely("a = 1\nif a:\n    b = c = 1\nelse:\n    b = 2\ntry:\n    d = 1\nfinally:\n    e = 1") == {
        *("a", "b", "e")
    }


def test_what_a_cell_uses_is_also_what_it_has_bound_itself():
    assert uses("a = 1\ndef f(b):\n    return a + b + c\nd = f(e)") == {"a", "c", "f", "e"}


def test_cells_that_are_read_by_several_threads_at_once_are_all_read():
    run([sys.executable, "-c", AT_ONCE], timeout=60, check=True)
