"""A boxed kernel is heard to the end, however much faster it speaks than anybody listens, on a busy machine for one."""

import asyncio
import time

import courses
import pytest
import zmq.asyncio
from boxed import needs_a_box
from small_course import NAME, RIGHT

from autograder.job import driver, forkserver, grade
from autograder.job.grade import Job
from autograder.job.kernel_client import KernelClient
from autograder.submissions.intake import Submission

pytestmark = needs_a_box

DISPLAYS = 8000  # more than the queues of libzmq's two ends and the socket between them hold by default


@pytest.fixture
def kernel(small):
    with courses.kernel(forkserver.servers(small, forkserver.make_rubric(small, NAME))) as started:
        yield started


@pytest.mark.whole
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
        listener._hush()
        loop.close()


@pytest.mark.parametrize("depth", [494, 900])  # what of it our stack bears depends on who walks it
def test_an_output_nested_deeply_costs_at_most_itself(small, depth):
    nested = f"value = 1\nfor _ in range({depth}):\n    value = [value]\n"
    says = (
        nested + "print('before')\ndisplay({'application/json': value}, raw=True)\nprint('after')\n" + RIGHT["double"]
    )
    job = Job(Submission("ann", NAME, {"double": says}), forkserver.make_rubric(small, NAME), 1)
    verdict = grade.grade_job(job, small)
    said = [output.get("text") for cell in verdict.notebook["cells"] for output in cell.get("outputs", ())]
    assert (verdict.points, said, verdict.notes) == (2.0, ["before\n", None, "after\n"], ())


def test_what_an_ended_cell_still_says_is_waited_for_while_the_cell_has_time():
    runner = driver._Runner.__new__(driver._Runner)
    runner.ends = time.monotonic() + 1000
    assert 900 < runner.iopub_timeout <= 1000
    runner.ends = time.monotonic() - 1000
    assert runner.iopub_timeout == driver.PATIENCE
