"""Files of settings that people write, in TOML: read as a msgspec.Struct, or refused with the file, the key and the mend.

The mend of a key is the `description` of its `msgspec.Meta`: what to write.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
PLACE = re.compile(r"(.*?)(?: - at `\$\.?(\w*).*`)?", re.DOTALL)
KEY = re.compile(r".* (unknown|required) field `(.*)`", re.DOTALL)


def read(path: Path, kind: type[T], fault: type[Exception], name: str = "") -> T:
    """What a file says. Raises `fault`, which names the file (as `name`, if given), the key and the mend."""
    try:
        said = msgspec.toml.decode(path.read_bytes())
    except (OSError, ValueError) as error:
        raise fault(f"{name or path}: cannot be read: {error}") from None
    return convert(said, kind, fault, name or str(path))


def convert(said: Any, kind: type[T], fault: type[Exception], where: str) -> T:
    """What a table says; `where` it is, for the message of `fault`."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as error:
        raise fault(f"{where}: {_explained(str(error), said, kind)}") from None


def _explained(text: str, said: dict[str, Any], kind: type[msgspec.Struct]) -> str:
    if found := KEY.fullmatch(text):
        if found[1] == "unknown":
            return f"unknown key {found[2]!r}; it knows {', '.join(kind.__struct_fields__)}"
        return f"{found[2]} is missing; write {_mends(kind, found[2])[-1]}"
    place = PLACE.fullmatch(text)
    assert place is not None
    return f"{place[2]} = {said.get(place[2])!r}; write {_mends(kind, place[2])[0]}"


def _mends(kind: type[msgspec.Struct], key: str) -> list[str]:
    """What is to be written of a key: what kind of value, and at the end what it means."""
    hint = get_type_hints(kind, include_extras=True)[key]
    return [each.description or "" for each in get_args(hint) if isinstance(each, msgspec.Meta)]
