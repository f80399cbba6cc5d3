"""Visible checks: what a chapter's check cells say to the student, in one line instead of a traceback.

    with attempt("halves", after=["pick"]):
        got = call(halves, [4, 6], returns=list_of(number, 2))
        expect(got == [2, 3], f"`halves([4, 6])` returned {got}; each number counts")

What has passed is remembered in this process. Every outcome but success raises, so that nbgrader's Validate lists the
cell; IPython shows the sentence alone. These checks teach; points come from elsewhere.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from across._language.catalogue import given, marked, said
from across._process import measured, recorded, sharing
from across._process.tracebacks import IN_FUNCTION, Frame, happened, is_own, own_line
from across.expecting import Expected, anything, called
from across.plain import NotPlainError, plain

sharing.share()  # each chapter imports this module first

_passed: set[str] = set()
_NOWHERE = object()
DONE = marked("looks right so far; your mark comes from more questions")
PREDICTION = "recorded before"  # how `done` begins of a guess that its own check measures
SHOWN = 300  # characters of it, and of what an answer raised


class Attempt(AssertionError):  # noqa: N818 - an outcome rather than an error
    """A visible check that did not pass. `str()` is the sentence for the student."""

    mark = "…"

    def _render_traceback_(self) -> list[str]:
        return [_bold(f"{self.mark} {self}")]


class NotAttempted(Attempt):
    """The answer is still the stub."""

    mark = "○"


class Waiting(Attempt):
    """Another exercise has to pass first."""

    mark = "○"


class NotYet(Attempt):
    """The answer ran and is not right yet: what was seen and what kind of thing was expected."""

    mark = "✗"


class Broke(NotYet):
    """The answer raised an exception: which, and at which line of the student's."""


def expect(condition: object, sentence: str) -> None:
    """Raise NotYet with `sentence` unless `condition` holds."""
    try:
        holds = bool(condition)
    except Exception:  # an array of several truth values, say, where the check meant one
        holds = False
    if not holds:
        raise NotYet(sentence)


def call(function: Callable[..., Any], *arguments: Any, returns: Expected = anything) -> Any:
    """Call the student's `function`; its answer as a plain value, read as grading reads it.

    Raises NotYet, with the call as text, for an answer that is not as `returns` expects it.
    """
    name = getattr(function, "__name__", "answer")  # an instance with __call__ or a partial has none
    before = f"{called(name, arguments)} returned"  # the call may change its arguments
    return read(function(*arguments), before, returns)


def read(value: Any, before: str, kind: Expected) -> Any:
    """A `value` of the student's as grading reads it. `before` begins the sentence for one that is not of `kind`.

    Raises NotYet.
    """
    try:
        value = plain(value)
    except NotPlainError as error:
        raise NotYet(f"{before} {error}.") from None
    try:
        return kind(value, before)
    except AssertionError as error:
        raise NotYet(str(error)) from None


@contextmanager
def without(*functions: Any, says: str) -> Iterator[None]:
    """While this block runs, each of these Python functions raises RuntimeError, whatever it is called by.

    For an answer that is to do by itself what the library does. `says` is its sentence.
    """

    def refused(*_: Any, **__: Any) -> Any:
        raise RuntimeError(...)

    refusing = refused.__code__.replace(
        co_consts=tuple(says if each is ... else each for each in refused.__code__.co_consts)
    )
    codes = [function.__code__ for function in functions]
    try:
        for function in functions:
            function.__code__ = refusing
        yield
    finally:
        for function, code in zip(functions, codes, strict=True):
            function.__code__ = code


def count_as_passed(names: Iterable[str]) -> None:
    """Have no check wait for the exercises `names`: for whoever runs one check of a chapter alone."""
    _passed.update(names)


class attempt:  # noqa: N801 - used like a keyword: with attempt("name"):
    """A block that checks exercise `name`, once those named in `after` have passed.

    Prints one line when the block ends well; with a `done` that begins with "recorded before", that of a prediction, it says
    whether the answer, the global of that name, is no longer the one that was measured first.

    What the block binds, ends with it: the names of a cell are again what they were. So no check spoils another cell's, and no
    later answer can rest on a check's, which is not there when it is graded.

    Otherwise raises NotAttempted (the answer raised NotImplementedError), Waiting, NotYet (a failed `expect` or assert), or
    Broke (any other exception, with the student's own line).
    """

    def __init__(self, name: str, after: Iterable[str] = (), done: str = DONE) -> None:
        self.name = name
        self.done = done  # what the line says of an exercise that passed
        self.after = [after] if isinstance(after, str) else list(after)

    def __enter__(self) -> attempt:
        frame = sys._getframe(1)
        self.caller = frame.f_globals
        bound = {each.argval for each in dis.get_instructions(frame.f_code) if each.opname == "STORE_NAME"}
        self._before = {name: self.caller.get(name, _NOWHERE) for name in bound}
        _passed.discard(self.name)
        for first in self.after:
            if first not in _passed:
                raise Waiting(said("{0}: first make `{1}` pass; this exercise builds on it.", self.name, first))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._told(error, trace)
        finally:
            for name, value in self._before.items():
                if value is not _NOWHERE:
                    self.caller[name] = value
                else:
                    self.caller.pop(name, None)

    def _told(self, error: BaseException | None, trace: TracebackType | None) -> None:
        """Print that the block ended well, or raise what is to be said of its `error`."""
        if error is None:
            _passed.add(self.name)
            changed = self._changed()
            line = said("✓ {0}: {1}.", self.name, changed or given(self.done))
            print(_bold(line))
            self._record(recorded.PASSES, line if changed else "")
        elif isinstance(error, (KeyboardInterrupt, GeneratorExit, Waiting)):  # of the answer nothing was said
            if isinstance(error, KeyboardInterrupt):  # in place of screens of TensorFlow's own lines
                line = said("○ {0}: you stopped its check.", self.name)
                vars(error)["_render_traceback_"] = lambda: [_bold(line)]
        elif isinstance(error, Attempt) and not isinstance(error, NotYet):
            self._record(recorded.OPEN, str(error))
        else:
            outcome = self._outcome(error, trace)
            if not isinstance(outcome, Waiting):
                self._record(recorded.OPEN if isinstance(outcome, NotAttempted) else recorded.NOT_YET, str(outcome))
            raise outcome from None

    def _record(self, state: str, says: str) -> None:
        recorded.tick(self.name, state, says, self.caller.get("__vsc_ipynb_file__", ""))

    def _changed(self) -> str:
        """Of a prediction that is not the one that was measured first: that it is not, and what that was; else ""."""
        if not self.done.startswith(PREDICTION) or self.name not in self.caller:
            return ""
        now = repr(self.caller[self.name])[:SHOWN]
        first = measured.first(self.name, now, self.caller.get("__vsc_ipynb_file__", ""))
        return "" if now == first else said("{0}; at first it was {1}", said(measured.CHANGED), first)

    def _outcome(self, error: BaseException, trace: TracebackType | None) -> Attempt:
        walked = traceback.walk_tb(trace)
        frames = [(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in walked]
        if isinstance(error, NotImplementedError) and _is_stub(error, frames):
            return NotAttempted(
                said("{0}: not attempted yet. Replace the line that raises NotImplementedError.", self.name)
            )
        message = _message(error)
        if isinstance(error, NotYet) or (isinstance(error, AssertionError) and len(frames) == 1):
            return NotYet(said("{0}: not yet. {1}", self.name, message or said("The check does not hold.")))
        if isinstance(error, NameError) and len(frames) == 1:  # the check cell's own line: nothing of the student's ran
            return Waiting(said("{0}: first run the cells above. One of them makes `{1}`.", self.name, error.name))
        raised = type(error).__name__ + (f": {message}" if message else "")
        if type(error).__name__ in RESTARTED:
            raised += said(
                " (Was a task of the cluster ended or restarted? Then run again from the cell that makes the cluster)"
            )
        # no line of the check's own, nor of a comprehension in it
        beneath = [each for each in frames[1:] if each[0] != frames[0][0] or not each[2].startswith("<")]
        if place := _line_in_function(error) or own_line(beneath):
            return Broke(said("{0}: your code raised {1} — {2}", self.name, raised, place))
        return Broke(said("{0}: the check could not use what your code returned. {1}", self.name, raised))


RESTARTED = ("AbortedError", "UnavailableError")  # TensorFlow's, of a server that is gone or not the one that it was


def _is_stub(error: NotImplementedError, frames: Sequence[Frame]) -> bool:
    """A stub raises in the notebook itself; TensorFlow too raises NotImplementedError, from its own files."""
    return "your turn" in str(error) or (len(frames) > 1 and is_own(frames[-1][0]))


def _message(error: BaseException) -> str:
    """The line of the exception's text that says what happened."""
    line = next((line.strip() for line in happened(error).splitlines() if line.strip()), "")
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _line_in_function(error: BaseException) -> str:
    """The deepest line of the student's tf.function, which TensorFlow marks by a star."""
    starred = (
        re.findall(r'File "[^"]*", line (\d+), in (\w+) +\*\n\s*(.+)', str(error)) if IN_FUNCTION in str(error) else []
    )
    return "in {1}, line {0}: {2}".format(*starred[-1]) if starred else ""


def _bold(text: str) -> str:
    """Its first two words bold in a notebook or a terminal; plain text for a file, or where NO_COLOR is set.

    In no colour of its own: errors stand on pink, on dark red and in a dialog, and only a theme's text is readable on all.
    """
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if os.environ.get("NO_COLOR") or not (shell or sys.stdout.isatty()):
        return text
    head, colon, rest = re.split("(: |：)", text, maxsplit=1) if re.search(": |：", text) else (text, "", "")
    return f"\x1b[1m{head}{colon}\x1b[0m{rest}"
