"""The fixed words in a picture in the language of the process, where the machine has a font for it.

matplotlib draws with the fonts of this machine. Where none has Chinese characters the picture keeps its English words, for
boxes in place of characters say nothing. matplotlib's list of fonts is that of its first start, so a font that was installed
since is looked for.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from across._language import catalogue
from across._language.catalogue import ENGLISH, current, given, marked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLE = "设备图会话副本显存"  # a font that has these has what the pictures say
KNOWN = (  # families, the better ones first: free ones, then those of Windows and macOS
    "Noto Sans CJK SC; Noto Sans SC; Source Han Sans SC; Source Han Sans CN; WenQuanYi Micro Hei; WenQuanYi Zen Hei; "
    "Microsoft YaHei; PingFang SC; Hiragino Sans GB; SimHei; Heiti SC; STHeiti; "
    "Noto Sans CJK JP; Droid Sans Fallback; Arial Unicode MS; SimSun"
).split("; ")
NAME = "name"  # the group id, in matplotlib's sense, of a text that is a name in the program: it stays as it is
# One word each, for lanes and bars of chapters: in their code nothing tells these from names in a program.
WORDS = (
    marked("you"),
    marked("yours"),
    marked("counted"),
    marked("turns"),
    marked("mirrored"),
    marked("strong"),
    marked("weak"),
)
NO_FONT = marked(
    "Pictures keep their English words: no font with Chinese characters was found (on Debian and Ubuntu: "
    "apt install fonts-noto-cjk)."
)


@cache
def font() -> str:
    """The family of a font of this machine that has Chinese characters, or ""."""
    return _known() or (_known() if _added() else "")


def _known() -> str:
    """The same, of the fonts in matplotlib's list."""
    from matplotlib import font_manager

    found = {entry.name: entry for entry in font_manager.fontManager.ttflist}
    for family in KNOWN:
        if family in found and _has(found[family].fname):
            return family
    return ""


def _added() -> bool:
    """Put the fonts that are not in matplotlib's list of them on it, for this process; whether there are any."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    listed = {entry.fname for entry in manager.ttflist}
    new = [path for path in font_manager.findSystemFonts() if path not in listed and _has(path)]
    for path in new:
        manager.addfont(path)
    return bool(new)


def said(text: str, *values: object) -> str:
    """A text with values in a picture, in the language of the process; English where there is no font for it."""
    return text.format(*values) if current() == ENGLISH or not font() else catalogue.said(text, *values)


def word(words: str) -> str:
    """Words that a chapter gives, for a text of a picture that holds more than them."""
    return words if current() == ENGLISH or not font() else given(words)


def translate(figure: Figure) -> None:
    """Put every fixed text of a figure into the language of this process, if there is a font for it."""
    if current() == ENGLISH or not font():
        return
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            named = axis.get_major_formatter()
            if isinstance(
                named, (FixedFormatter, FuncFormatter, StrCategoryFormatter)
            ):  # names beside bars and lanes, set anew at each draw
                axis.set_major_formatter(FuncFormatter(lambda at, place, named=named: given(str(named(at, place)))))
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                for label in (tick.label1, tick.label2):
                    label.set_fontfamily([font(), *label.get_fontfamily()])
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if (words := text.get_text()) and text.get_gid() != NAME:
            text.set_text(given(words))
            text.set_fontfamily([font(), *[name for name in text.get_fontfamily() if name != font()]])
            if not _is_bold_there():
                text.set_fontweight("normal")  # matplotlib would say so on stderr, once for each picture


@cache
def _is_bold_there() -> bool:
    from matplotlib import font_manager

    weights = [str(entry.weight) for entry in font_manager.fontManager.ttflist if entry.name == font()]
    return any(weight in ("bold", "600", "700", "800", "900") for weight in weights)


def _has(path: str) -> bool:
    from matplotlib.ft2font import FT2Font

    try:
        characters = FT2Font(path).get_charmap()
    except (OSError, RuntimeError):
        return False
    return all(ord(character) in characters for character in SAMPLE)
