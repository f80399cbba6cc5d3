"""A list of the instructor's (the roster, times, extensions): a CSV whose columns are found by what they are called."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from autograder.model.course import CourseError


def lines(path: Path, columns: Mapping[str, str], wants: str, *needs: set[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each line that says something: the file and its number, to be named, and its cells by what their column is.

    `columns`: how one may be called, with single blanks and in small letters -> what it is; any other is passed over. One of
    each of `needs` has to be there, which `wants` says. Raises CourseError, which names the file and the mend; OSError.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            rows = csv.reader(file, delimiter=";" if first.count(";") > first.count(",") else ",")
            head = [columns.get(" ".join(cell.replace("_", " ").casefold().split()), "") for cell in next(rows, [])]
            there = [name for name in head if name]
            if len(set(there)) < len(there) or not all(each & set(there) for each in needs):
                raise CourseError(f"{path}: its first line must name {wants}")
            for row in rows:
                cells = {name: cell.strip() for name, cell in zip(head, row, strict=False) if name}
                if any(cells.values()):
                    yield f"{path}, line {rows.line_num}", cells
    except (UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"{path}: cannot be read ({error}); save it as CSV in UTF-8") from None
