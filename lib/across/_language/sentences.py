"""Sentences in another language, found by the templates that the English ones were made from.

    zh = Sentences({"{0} returned {1}; expected {2}.": "{0} 返回了 {1}；应为{2}。", "a number": "一个数"})
    zh.said("`f(1)` returned 'x'; expected a number.")      # `f(1)` 返回了 'x'；应为一个数。

A template is the English text with a number in braces for each value; braces of the text itself are doubled. Of the
templates that fit a sentence the one with most letters is taken, where those at its beginning count twice, and the values are
looked up in turn. What fits none stays as it is. Matching looks for the fixed parts from left to right and never goes back: a
sentence that quotes a hostile answer takes no longer than another one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONGEST = 4_000  # characters of a text that is looked up
DEEPEST = 8  # templates within templates
TRIES = 2_000  # templates that may fit one text and its parts
LETTERS = 3  # that a template has at least, besides its values: "{0}: {1}" would fit anything
PLACE = re.compile(r"\{(\d+)\}|(\{\{|\}\})")
BETWEEN = {"; ": "；", ": ": "：", ", ": "，"}  # of things that were joined, and of a name and what it is


@dataclass(frozen=True)
class Template:
    """A text with places for values: `fixed[0] value fixed[1] value ... fixed[-1]`; `numbers` says which value where."""

    fixed: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Template:
        """`text` as it stands in a catalogue. Raises ValueError for a brace that is neither doubled nor a place."""
        fixed, numbers, at = [""], [], 0
        for found in PLACE.finditer(text):
            between = text[at : found.start()]
            if "{" in between or "}" in between:
                break
            fixed[-1] += between
            at = found.end()
            if found[2]:
                fixed[-1] += found[2][0]
            else:
                numbers.append(int(found[1]))
                fixed.append("")
        rest = text[at:]
        if "{" in rest or "}" in rest:
            raise ValueError(f"{text!r}: a brace stands alone; double it, or write a place as in {{0}}")
        fixed[-1] += rest
        return cls(tuple(fixed), tuple(numbers))

    @property
    def letters(self) -> int:
        """How many letters are fixed."""
        return sum(character.isalpha() for part in self.fixed for character in part)

    @property
    def weight(self) -> int:
        """How surely a text that fits is meant: its letters, those at its beginning twice."""
        return self.letters + sum(character.isalpha() for character in self.fixed[0])

    @property
    def longest(self) -> str:
        """The longest fixed part: what fits has it."""
        return max(self.fixed, key=len)

    def values(self, text: str, *, begins: bool = False) -> tuple[dict[int, str], int] | None:
        """The values with which the template gives `text`, or its beginning if `begins`, and where that ends; or None."""
        first, *middle = self.fixed
        if not middle:
            fits = text.startswith(first) if begins else text == first
            return ({}, len(first)) if fits else None
        last = middle.pop()
        if not text.startswith(first) or (begins and not last) or not (begins or text.endswith(last)):
            return None
        at, found = len(first), {}
        end = len(text) if begins else len(text) - len(last)
        for number, part in zip(self.numbers, (*middle, last if begins else ""), strict=True):
            place = end if part == "" and number == self.numbers[-1] and not begins else text.find(part, at, end)
            if part == "" and number != self.numbers[-1]:  # of two values side by side the first takes all
                following = self.fixed[self.numbers.index(number) + 2]
                place = text.find(following, at, end) if following and following != last else end
            if place < at:
                return None
            found[number] = text[at:place]
            at = place + len(part)
        return found, at if begins else len(text)

    def filled(self, values: Mapping[int, str]) -> str:
        """The text with these values."""
        parts = [self.fixed[0]]
        for number, part in zip(self.numbers, self.fixed[1:], strict=True):
            parts += [values.get(number, ""), part]
        return "".join(parts)


class Sentences:
    """A language's sentences."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        """`pairs` are English templates and the same in the language. Raises ValueError for one that is no template."""
        self._pairs = dict(pairs)
        self._whole: dict[str, str] = {}
        templates = []
        for english, other in pairs.items():
            ours, theirs = Template.read(english), Template.read(other)
            if not ours.numbers:
                self._whole[ours.fixed[0]] = theirs.filled({})
            elif ours.letters >= LETTERS:
                templates.append((ours, theirs))
        self._templates = sorted(templates, key=lambda pair: -pair[0].weight)

    def __bool__(self) -> bool:
        return bool(self._whole or self._templates)

    def template(self, english: str) -> str:
        """The same template in the language, or as it is where nobody has translated it."""
        return self._pairs.get(english, english)

    def said(self, text: str) -> str:
        """`text` in the language, or as it is where nothing fits it."""
        if len(text) > LONGEST or not text or text.isspace():
            return text
        search = _Search(self._whole, self._templates)
        found = search.listed(text, DEEPEST) or search.whole(text, DEEPEST)
        return text if found is None else found

    def label(self, text: str) -> str:
        """The same of a few words in a picture, which may be several put together: "MODEL: two programs"."""
        found = self.said(text)
        return found if found != text or len(text) > LONGEST else _Search(self._whole, self._templates).part(text, 3)


class _Search:
    """The look-up of one text: it ends when it has held `TRIES` templates against it."""

    def __init__(self, whole: Mapping[str, str], templates: Sequence[tuple[Template, Template]]) -> None:
        self._whole, self._templates, self._left = whole, templates, TRIES

    def whole(self, text: str, depth: int, alone: bool = False) -> str | None:
        """All of `text`: as a sentence or, unless `alone`, as two that follow each other; None if it is not known."""
        found = self._one(text, depth)
        return self._two(text, depth) if found is None and depth and not alone else found

    def _one(self, text: str, depth: int) -> str | None:
        if text in self._whole:
            return self._whole[text]
        if not depth:
            return None
        for ours, theirs in self._possible(text):
            if (found := ours.values(text)) is not None:
                return self._filled(ours, theirs, found[0], depth)
        return None

    def _possible(self, text: str) -> Iterator[tuple[Template, Template]]:
        for ours, theirs in self._templates:
            if ours.longest in text:
                self._left -= 1
                if self._left < 0:
                    return
                yield ours, theirs

    def _filled(self, ours: Template, theirs: Template, values: dict[int, str], depth: int) -> str:
        """A template's translation with its values, themselves looked up."""
        for at, (one, other) in enumerate(itertools.pairwise(ours.numbers), 1):
            if ours.fixed[at] == "" and not values[other]:
                end = self._known_end(values[one])
                values |= {one: values[one][: len(values[one]) - len(end)], other: end}
        more = ""
        if ours.numbers and not ours.fixed[-1] and depth:  # "TensorFlow ran it on {2}", and then why
            head, _, tail = values[ours.numbers[-1]].partition(": ")
            why = self._one(tail.removesuffix("."), depth - 1) if tail else None
            if why is not None:
                values |= {ours.numbers[-1]: head}
                more = f"：{why}。" if tail.endswith(".") else f"：{why}"
        return theirs.filled({number: self.part(value, depth - 1) for number, value in values.items()}) + more

    def _known_end(self, text: str) -> str:
        """The end of a value that is a text of its own: of "CPU:1  <- a surprise" or "KeyError (line 2 of your cell)"."""
        for known in self._whole:
            if len(known) > LETTERS and text.endswith(known):
                return known
        for ours, _ in self._possible(text):
            at = text.find(ours.fixed[0]) if ours.fixed[0] else -1
            if at > 0 and ours.values(text[at:]) is not None:
                return text[at:]
        return ""

    def _two(self, text: str, depth: int) -> str | None:
        for ours, theirs in self._possible(text):
            found = ours.values(text, begins=True)
            if found is None or not found[1] < len(text):
                continue
            after = self._rest(text[found[1] :], depth - 1)
            if after is not None:
                return self._filled(ours, theirs, found[0], depth) + after
        for first, other in self._whole.items():
            if len(first) >= LETTERS and text.startswith(first) and text != first:
                after = self._rest(text[len(first) :], depth - 1)
                if after is not None:
                    return other + after
        return None

    def _rest(self, text: str, depth: int) -> str | None:
        """What follows a sentence; a blank before it may be its own."""
        return self._whole.get(text) or self.whole(text.lstrip(), depth)

    def listed(self, text: str, depth: int) -> str | None:
        """Sentences that were joined, if all of them are known: the first one's template would fit them all."""
        parts = text.split("; ") if depth else []
        said = [self._one(part, depth - 1) for part in parts] if len(parts) > 1 else []
        return "；".join(filter(None, said)) if said and all(said) else None

    def part(self, value: str, depth: int) -> str:
        """A value: itself a sentence, or several that were joined, or whatever it is."""
        if not any(character.isalpha() for character in value):
            return value
        bare = value.strip()
        if bare != value and (found := self._one(value, depth)) is not None:
            return found
        found = self.listed(bare, depth) or self.whole(bare, depth)
        if found is not None:
            at = value.find(bare)
            return value[:at] + found + value[at + len(bare) :]  # as wide as a column of print was made
        for between, theirs in BETWEEN.items() if depth else ():
            if between in bare:
                parts = bare.split(between)
                said = [self.part(part, depth - 1) for part in parts]
                if said != parts:
                    return theirs.join(said)
        return value
