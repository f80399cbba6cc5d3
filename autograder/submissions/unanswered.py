"""Which exercises a submission left as they were released."""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Iterator

from autograder.model.cells import grade_id
from autograder.model.course import Chapter, Exercise
from autograder.submissions.intake import Submission


def blank(submission: Submission, chapter: Chapter) -> set[str]:
    """The exercises that were left as released: of code only the tokens count, of prose all but the outer whitespace.

    An exercise that looks at several cells is blank when its own cell, the one that bears its name, is; if none does,
    when all are. An answer that is missing counts as left as released, one that could not be taken does not.
    """
    kinds = {grade_id(cell): cell["cell_type"] for cell in chapter.release["cells"]}
    stubs = chapter.answers
    untouched = {
        name
        for name, stub in stubs.items()
        if name not in submission.invalid
        and (name not in submission.answers or _same(submission.answers[name], stub, kinds[name]))
    }
    found = {
        exercise.name for exercise in chapter.exercises if exercise.answer_ids and own_cells(exercise) <= untouched
    }
    if submission.nothing or (
        untouched == stubs.keys() and not submission.added
    ):  # nbgrader's tasks, and tests of nothing
        found |= {exercise.name for exercise in chapter.exercises if not exercise.answer_ids}
    return found


def own_cells(exercise: Exercise) -> set[str]:
    """The grade ids of the answer cells in which this exercise itself is answered."""
    return {exercise.name} & set(exercise.answer_ids) or set(exercise.answer_ids)


def _same(source: str, stub: str, kind: str) -> bool:
    if kind != "code" or source.strip() == stub.strip():
        return source.strip() == stub.strip()
    try:  # no further than to the first that differs: to cut 64 KiB of `'\\'\\'\\` into tokens takes 34 s
        return all(one == other for one, other in itertools.zip_longest(_tokens(source), _tokens(stub)))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _tokens(source: str) -> Iterator[tuple[int, str]]:
    """What Python sees of a source, whatever its comments, blank lines and indents. Raises what `tokenize` does."""
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source.strip() + "\n").readline):
        if token.type not in ignored:
            yield token.type, "" if token.type in (tokenize.INDENT, tokenize.NEWLINE) else token.string
