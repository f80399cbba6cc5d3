"""A boxed kernel is heard to the end, however much faster it speaks than anybody listens, on a busy machine for one."""

import asyncio
import os
import time

import courses
import pytest
import zmq.asyncio
from boxed import needs_a_box

from autograder.job import execute, forkserver, grade
from autograder.job.grade import Job
from autograder.job.kernel_client import KernelClient
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import Limits
from autograder.submissions.intake import Submission

pytestmark = needs_a_box

NAME = "90_loud"
SOURCE = """\
# %% [markdown]
# # Loud

# %% answer="one"
### BEGIN SOLUTION
one = 1
### END SOLUTION

# %% check="one" points=1
assert one == 1
"""
CHECKS = """\
from autograder.probe.asking import exercise, probe

@probe
def told(student):
    return student.one

@exercise("one")
def test_it_is_one(student):
    assert student.ask(told) == 1
"""
DISPLAYS = 8000  # more than the queues of libzmq's two ends and the socket between them hold by default


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS)


@pytest.fixture
def kernel(course):
    servers = forkserver.servers(course, forkserver.make_rubric(course, NAME))
    started = KernelProcess(servers.student.path, f"loud-{os.getpid()}", Limits())
    try:
        started.ready()
        yield started
    finally:
        started.close()


def test_displays_that_nobody_reads_yet_are_not_lost(kernel):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    listener = KernelClient(kernel.connection, kernel.sockets, kernel.alive)
    client = listener.ready(zmq.asyncio.Context())

    async def heard():
        client.execute(f"for n in range({DISPLAYS}): display({{'text/plain': 'x'}}, raw=True)")
        await client.get_shell_msg(timeout=300)  # all was said, and none of it read
        kinds = []
        while kinds[-1:] != ["idle"]:
            message = await client.get_iopub_msg(timeout=60)
            kinds.append(message["content"].get("execution_state", message["msg_type"]))
        return kinds

    try:
        assert loop.run_until_complete(heard()).count("display_data") == DISPLAYS
    finally:
        listener.mute()
        loop.close()


DEPTHS = (450, 482, 494, 700, 900)  # what of it our stack bears depends on who walks it


@pytest.mark.parametrize(
    "depth", [pytest.param(each, marks=() if each in (494, 900) else pytest.mark.slow) for each in DEPTHS]
)
def test_an_output_nested_deeply_costs_at_most_itself(course, depth):
    nested = f"value = 1\nfor _ in range({depth}):\n    value = [value]\n"
    says = nested + "one = 1\nprint('before')\ndisplay({'application/json': value}, raw=True)\nprint('after')"
    rubric = forkserver.make_rubric(course, NAME)
    verdict = grade.grade_job(Job(Submission("ann", NAME, {"one": says}), rubric, 1), course)
    said = [output.get("text") for cell in verdict.notebook["cells"] for output in cell.get("outputs", ())]
    assert (verdict.points, said, verdict.notes) == (1.0, ["before\n", None, "after\n"], ())


def test_what_an_ended_cell_still_says_is_waited_for_while_the_cell_has_time():
    runner = execute._Runner.__new__(execute._Runner)
    runner.ends = time.monotonic() + 1000
    assert 900 < runner.iopub_timeout <= 1000
    runner.ends = time.monotonic() - 1000
    assert runner.iopub_timeout == execute.PATIENCE
