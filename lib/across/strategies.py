"""What each distribution strategy of TensorFlow can do with each way of training: a table made by running its every cell.

    strategies.recorded()                           # the table as it was recorded, at once; its date is under it
    strategies.cell("CentralStorage", "Keras fit")  # one cell, run now in a fresh process

A cell trains one small model for four steps, and compares its weights and its loss with those of one device. Each runs in a
fresh process of its own. It may hang by chance: a process that uses no processor time for QUIET seconds is ended and tried
again. The table that is shipped is made anew by:

    python -c "from across import strategies; strategies.record()"
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from across import _system, fresh
from across._language.catalogue import given, marked
from across._process import strategy_cell
from across._process.watched import HUNG, watched
from across.pictures import Tabled
from across.workers import addresses

STRATEGIES = tuple(strategy_cell.STRATEGIES)
WAYS = ("Keras fit", "Keras 2 fit", marked("own loop"), "Estimator")  # Keras 2 is the package tf_keras
SAME = marked("as one device")
OTHERWISE = (marked("another loss"), marked("other weights"), "fails", "hung")
QUIET = 10.0  # seconds without work, after which a cell counts as hung
TIMEOUT = 180.0  # seconds for one try: a machine under load is five times as slow
TRIES = 3
TOLERANCE = 1e-4  # of weights and losses of order 1, in float32, after four steps
_RECORDED = Path(__file__).with_name("strategies_recorded.json")


@dataclass(frozen=True, repr=False)
class Cell:
    """What became of one strategy in one way of training."""

    strategy: str
    way: str
    outcome: str  # SAME, or one of OTHERWISE
    says: str = ""  # numbers that differ, or TensorFlow's own message
    versions: str = ""  # of TensorFlow and Keras
    machine: str = ""
    date: str = ""  # on which it was run

    def short(self, limit: int = 80) -> str:
        """The outcome and the beginning of what it says, on one line."""
        if self.outcome == SAME:
            return f"✓ {given(self.outcome)}"
        text = f"✗ {given(self.outcome)}: {self.says}" if self.outcome != "fails" else f"✗ {self.says}"
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def __repr__(self) -> str:
        return f"{self.strategy}, {self.way}: {self.short(400)} ({self.versions}; {self.date})"


@dataclass(frozen=True, repr=False)
class Table(Tabled):
    """Cells by strategy and way of training: `found["TPU", "Keras fit"]`."""

    columns = (marked("strategy"), *WAYS)

    cells: tuple[Cell, ...]

    def __getitem__(self, place: tuple[str, str]) -> Cell:
        """The cell of a strategy and a way. Raises KeyError for one that the table has not."""
        for each in self.cells:
            if (each.strategy, each.way) == place:
                return each
        raise KeyError(place)

    def note(self) -> str:
        """When, with what and where the cells were run."""
        return "; ".join(sorted({f"{each.date}, {each.versions}, {each.machine}" for each in self.cells}))

    def rows(self) -> list[list[str]]:
        """One row a strategy: its name, and what became of it in each way."""
        return [[name, *(self[name, way].short(52) for way in WAYS)] for name in STRATEGIES]


def recorded() -> Table:
    """The table that is shipped; under it the versions, the kind of machine and the date."""
    return Table(tuple(Cell(**each) for each in json.loads(_RECORDED.read_text(encoding="utf-8"))))


def cell(strategy: str, way: str) -> Cell:
    """Run one cell now, at most TRIES times if it hangs. Raises ValueError for a strategy or a way of another name."""
    if strategy not in STRATEGIES or way not in WAYS:
        raise ValueError(f"{strategy!r}, {way!r}: a strategy is one of {STRATEGIES}, a way one of {WAYS}")
    outcome, says = _ran(strategy, way)
    for _ in range(TRIES - 1):
        if outcome == "hung":
            outcome, says = _ran(strategy, way)
    return Cell(strategy, way, outcome, says, _versions(), _machine(), datetime.date.today().isoformat())


def record() -> None:
    """Run all cells and write the table that is shipped. For authors. Raises RuntimeError if one hung."""
    found = [cell(strategy, way) for strategy in STRATEGIES for way in WAYS]
    if hung := [each for each in found if each.outcome == "hung"]:
        raise RuntimeError(f"not recorded: {hung}")
    lines = [json.dumps(dataclasses.asdict(each), ensure_ascii=False) for each in found]
    _RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _ran(strategy: str, way: str) -> tuple[str, str]:
    """Run a cell once: its outcome, and what there is to say of it."""
    here = addresses(2)
    try:
        if strategy == "MultiWorkerMirrored":
            workers = [(QUIET, strategy_cell.trained, strategy, way, index, here) for index in (0, 1)]
            (weights, loss), *_ = fresh.side_by_side(watched, workers, timeout=TIMEOUT)
        else:
            asked = (QUIET, strategy_cell.trained, strategy, way, 0, here)
            weights, loss = fresh.call(watched, *asked, cpus=2, timeout=TIMEOUT).result()
    except fresh.Died as error:
        hung = f"exit code {HUNG}" in str(error)
        return ("hung", f"no work for {QUIET:g} s") if hung else ("fails", _line(error))
    except TimeoutError as error:
        return "hung", _line(error)
    except Exception as error:  # whatever TensorFlow raises is what the table is to show
        return "fails", _line(error)
    return _compared(weights, loss)


def _compared(weights: list[float], loss: float) -> tuple[str, str]:
    """The outcome of a cell that trained: against one device."""
    right, right_loss = strategy_cell.alone()
    for value, wanted in zip(weights, right, strict=True):
        if not abs(value - wanted) <= TOLERANCE:  # a NaN is neither larger nor smaller
            return "other weights", f"a weight is {value:.3f}, on one device {wanted:.3f}"
    if not abs(loss - right_loss) <= TOLERANCE:
        return "another loss", f"it reports {loss:.3f}, on one device {right_loss:.3f}; the weights are right"
    return SAME, ""


def _line(error: BaseException) -> str:
    """An error's type and message on one line, of a long one the beginning and the end."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"
    return f"{type(error).__name__}: {text}"


def _versions() -> str:
    names = {"TensorFlow": ("tensorflow", "tensorflow-cpu"), "Keras": ("keras",), "tf_keras": ("tf_keras",)}
    found = {label: next(filter(None, map(_system.version, several)), "") for label, several in names.items()}
    return ", ".join(f"{label} {version}" for label, version in found.items() if version)


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
