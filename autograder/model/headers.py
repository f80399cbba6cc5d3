"""What `course.toml` and a chapter's own header may say, each key typed, and the mend for whoever writes something else.

A chapter's header is the key `across` of its source's YAML header, see `autograder.authoring.build`; building checks it and
writes it into the notebook's metadata, where grading reads it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from autograder.model.address import Address
from autograder.model.limits import STEP, CheckerCaps, CourseError, Limits, checked, near

ZONE = re.compile(r" ([A-Za-z_]+(?:/[A-Za-z_+-]+)*)\Z")  # behind a date
OFFSET = re.compile(r"[+-]\d\d:\d\d")
SMALLEST = 0.001  # points: a smaller step is no number that a student can be told
FOLLOW = "the share of its points that an answer gets whose error is carried over, as in follow_through = 0.5"
Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]*\Z")]
NUMBERED = re.compile(r"[0-9][0-9]_[a-z0-9_]+\Z")
ChapterName = Annotated[str, Meta(pattern=r"\A([0-9][0-9]_[a-z0-9_]+|[A-Za-z][A-Za-z0-9_]*)\Z")]  # the latter: imported
Module = Annotated[str, Meta(pattern=r"\A[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")]
Operation = Annotated[str, Meta(pattern=r"\A[A-Z][A-Za-z0-9_]*\Z")]


class CourseFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """course.toml."""

    id: Annotated[Id, Meta(description='a short name of letters and digits, as in id = "shells"')]
    title: Annotated[str, Meta(min_length=1, description='what people call it, as in title = "Shells"')]
    chapters: Annotated[
        tuple[ChapterName, ...],
        Meta(description='names in order, as in chapters = ["01_pipes"]; without it: every solutions/NN_name.py'),
    ] = ()
    checks: Annotated[str, Meta(min_length=1, description='the folder of the checks, as in checks = "checks"')] = (
        "checks"
    )
    preload: Annotated[
        tuple[Module, ...],
        Meta(description='modules that every kernel has imported when it starts, as in preload = ["numpy"]'),
    ] = ()
    rows: Annotated[str, Meta(description='all that it teaches, as in rows = "S1-S76"')] = ""
    step: Annotated[
        float,
        Meta(ge=0, le=100, description="the points between two marks, as in step = 0.5; 0: parts are not rounded"),
    ] = STEP
    follow_through: Annotated[float, Meta(ge=0, le=1, description=FOLLOW)] | None = None
    needs: Annotated[
        dict[ChapterName, tuple[ChapterName, ...]],
        Meta(description='the chapters that come before each, as in 03_jobs = ["01_pipes"]'),
    ] = {}
    published: Annotated[
        str,
        Meta(
            description='the repository that released folders are pushed to, as in published = "https://HOST/OWNER/NAME"'
        ),
    ] = ""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a chapter says of itself. What it does not say is as in `Limits`, `CheckerCaps` and here."""

    limits: Annotated[dict[str, Any], Meta(description="limits by name, as in limits: {cell_seconds: 60}")] = {}
    checker: Annotated[
        dict[str, Any], Meta(description="the checker's limits by name, as in checker: {memory_bytes: 4294967296}")
    ] = {}
    allowed_ops: Annotated[
        tuple[Operation, ...],
        Meta(description="operations that its graphs may hold besides the usual, as in allowed_ops: [Bincount]"),
    ] = ()
    gpus: Annotated[Literal[0, 1, 2, 4], Meta(description="0, 1, 2 or 4")] = 0
    devices: Annotated[int, Meta(ge=1, le=64, description="how many devices it can use, as in devices: 4")] = 1
    rows: Annotated[str, Meta(description='the rows of the course that it covers, as in rows: "S1-S8 S12"')] = ""
    follow_through: Annotated[float, Meta(ge=0, le=1, description=FOLLOW.replace("=", ":"))] | None = None
    due: Annotated[str, Meta(description='when it is due, as in due: "2026-11-30T23:59+01:00"')] = ""


NEEDS = "needs"  # what course.toml says of a chapter's place in the course: for the start page
# what building adds to the header in the notebook's metadata
OURS = frozenset({"chapter", "release", "assignment", "notebook", NEEDS})
KEYS = frozenset(Header.__struct_fields__)
LEFT_OUT = KEYS | {NEEDS}  # of the digest of a release
Kind = TypeVar("Kind", CourseFile, Header)


def course_file(where: str, values: object) -> CourseFile:
    """What course.toml says. Raises CourseError, which begins with `where`."""
    found = _typed(where, values, CourseFile)
    if found.published:
        Address.read(f"{where}: published:", found.published)
    if 0 < found.step < SMALLEST:
        raise CourseError(f"{where}: step: {found.step!r}; write {_mends(CourseFile)['step']}")
    return found


def header(where: str, values: object) -> Header:
    """What a chapter's header says. Raises CourseError, which begins with `where`."""
    if isinstance(values, dict) and isinstance(values.get("due"), datetime):  # YAML reads some dates itself
        values = {**values, "due": values["due"].isoformat()}
    found = _typed(where, values, Header)
    checked(f"{where}: limits", found.limits, Limits)
    checked(f"{where}: checker", found.checker, CheckerCaps)
    if found.due:
        date(f"{where}: due: {found.due!r}", found.due)
    return found


def date(where: str, text: str) -> str:
    """A date, ISO 8601 with an offset or a zone behind it, in UTC. Raises CourseError, which begins with `where`."""
    said, zone = text.strip(), zone_of(text)
    try:
        when = datetime.fromisoformat(said.removesuffix(zone).strip())
    except ValueError:
        raise CourseError(f"{where} is no date; write it like 2026-11-30T23:59+01:00") from None
    if zone:
        there = zone_called(where, zone)
        when = when if when.tzinfo else when.replace(tzinfo=there)
    if when.tzinfo is None:
        raise CourseError(f"{where} does not say where; add the offset: {text.strip()}+00:00 for UTC")
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def zone_of(text: str) -> str:
    """The zone that a date names (`2026-11-30T23:59 Europe/Vienna`); empty if it names none."""
    found = ZONE.search(text.strip())
    return found[1] if found else ""


def there(zone: str) -> tzinfo:
    """The time of a zone's name or of an offset; UTC for an empty one. Raises CourseError for what is neither."""
    if OFFSET.fullmatch(zone):
        return datetime.fromisoformat(f"2026-01-01T00:00{zone}").tzinfo or UTC
    return zone_called("the zone of the class", zone) if zone else UTC


def zone_called(where: str, zone: str) -> ZoneInfo:
    """The zone of a name. Raises CourseError, which begins with `where`."""
    try:
        return ZoneInfo(zone)
    except (OSError, ValueError, KeyError):  # a folder's name, a name with a NUL, an unknown one
        raise CourseError(
            f"{where}: this machine knows no zone {zone!r}; write it like Europe/Vienna, or give the offset"
        ) from None


def _typed(where: str, values: object, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise CourseError(f"{where}: {_mended(str(error), values, kind)}") from None


def _mended(says: str, values: object, kind: type[CourseFile | Header]) -> str:
    """What msgspec says of a value, with the key and the mend."""
    mends = _mends(kind)
    if found := re.search(r"unknown field `(.*)`", says):
        return f"unknown key {found[1]!r}; {near(found[1], mends)}"
    if found := re.search(r"missing required field `(.*)`", says):
        return f"{found[1]} is missing; write {mends[found[1]]}"
    key = found[1] if (found := re.search(r"`(?:key in )?\$\.(\w+)", says)) else ""
    if key not in mends or not isinstance(values, dict):
        return f"{values!r}; it knows {', '.join(mends)}"
    return f"{key}: {values[key]!r}; write {mends[key]}"


@cache
def _mends(kind: type[CourseFile | Header]) -> dict[str, str]:
    """What is to be written for each key."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        metas = [
            *getattr(hint, "__metadata__", ()),
            *(m for arg in getattr(hint, "__args__", ()) for m in getattr(arg, "__metadata__", ())),
        ]
        found[name] = next(meta.description for meta in metas if getattr(meta, "description", None))
    return found
