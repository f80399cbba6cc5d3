"""One file of SQLite's for two OUTs: graders that begin at the same moment both write what they graded."""

import multiprocessing

import classroom
import pytest
from classroom import NAME

from autograder.gradebook import record
from autograder.gradebook.record import Recorder

TINY = classroom.chapter()


def grader(out, url, together):
    together.wait(60)
    with Recorder(out, TINY, url) as recorder:
        for number in range(5):
            recorder.write(classroom.verdict(f"{out.name}{number}"))


@pytest.mark.parametrize("left", [b"", b"what a killed grader left"])
def test_graders_that_create_one_file_at_once_both_write_into_it(tmp_path, left):
    if left:
        (tmp_path / "class.db.new").write_bytes(left)
        (tmp_path / "class.db.new-journal").write_bytes(left)
    context = multiprocessing.get_context("fork")
    outs, together = [tmp_path / name for name in "abc"], context.Barrier(3)
    url = f"sqlite:///{tmp_path / 'class.db'}"
    graders = [context.Process(target=grader, args=(out, url, together)) for out in outs]
    for each in graders:
        each.start()
    for each in graders:
        each.join(120)
        each.kill()
    assert [each.exitcode for each in graders] == [0, 0, 0]
    assert [each.student for each in record.records(outs[0], TINY)] == [
        f"{name}{n}" for name in "abc" for n in range(5)
    ]
    assert [each.name for each in tmp_path.glob("class.db*")] == ["class.db"]
    assert (outs[1] / "autograded" / "b0" / NAME).is_dir()
