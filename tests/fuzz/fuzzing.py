"""What the fuzz tests share: how many examples, damaged bytes, and a child process in which time and memory are bounded.

Every run draws other examples, from a seed that a failure names: ``ACROSS_FUZZ_SEED=NUMBER`` draws the same ones again. It
tries a tenth of the examples: ``ACROSS_FUZZ=1 uv run pytest tests/fuzz`` tries all, ``ACROSS_FUZZ=50`` fifty times as many.
"""

import os
import resource
import secrets
import signal
import time
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

TIMES = float(os.environ.get("ACROSS_FUZZ", "0.1"))
SEED = int(os.environ.get("ACROSS_FUZZ_SEED") or secrets.randbits(32))
LEAST = 10  # examples
MIB = 1 << 20
Test = TypeVar("Test", bound=Callable[..., None])


def examples(count: int) -> Callable[[Test], Test]:
    """Try a tenth of `count` examples, or as many as $ACROSS_FUZZ says, drawn from `SEED`."""
    chosen = settings(
        max_examples=max(LEAST, round(count * TIMES)),
        database=None,
        deadline=None,  # a busy machine is no bug: where time is the promise, `bounded` holds it
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(SEED)(chosen(test))


def damaged(data: bytes, rng: Random) -> bytes:
    """`data` with one to four of its bytes or slices flipped, cut out, doubled, moved or overwritten."""
    for _ in range(rng.randint(1, 4)):
        a, b = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        b = min(b, a + rng.choice((1, 4, 64, len(data))))
        noise = rng.choice(
            (rng.randbytes(rng.randint(1, 8)), b"\0", b"\xff" * 4, b'"', b"\\ud800", b"[", b"{", b"9" * 30)
        )
        match rng.randrange(7):
            case 0 if data:
                at = rng.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[:a]
            case 2:
                data = data[:a] + data[b:]
            case 3:
                data = data[:b] + data[a:b] + data[b:]
            case 4:
                data = data[:a] + noise + data[a:]
            case 5:
                data = data[:a] + noise + data[b:]
            case _:
                data = data[b:] + data[a:b]
    return data


def damaged_bytes(data: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """`damaged` as a strategy."""
    return st.builds(lambda whole, seed: damaged(whole, Random(seed)), data, st.integers(0, 2**32))


def bounded(function: Callable[[], Any], seconds: float, mebibytes: int) -> None:
    """Call `function` in a forked child; fail if it raises, dies, or needs more CPU time or more memory than said.

    The memory is what the child may map beyond what it has already.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            now = time.process_time()
            resource.setrlimit(resource.RLIMIT_CPU, (int(now + seconds) + 1, int(now + seconds) + 2))
            with open("/proc/self/statm", encoding="ascii") as file:
                mapped = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + mebibytes * MIB,) * 2)
            function()
            code = 0
        except BaseException:
            os.write(writing, traceback.format_exc()[-4000:].encode(errors="replace"))
        finally:
            os._exit(code)
    os.close(writing)
    try:
        with open(reading, "rb") as file:
            said = file.read().decode()
    finally:
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = "its time" if number in (signal.SIGXCPU, signal.SIGKILL) else signal.Signals(number).name
        raise AssertionError(f"ended by {why}; it had {seconds} CPU seconds and {mebibytes} MiB")
    assert os.WEXITSTATUS(status) == 0, said
