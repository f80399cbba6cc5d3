"""From an executed chapter to what Sphinx reads: folded cells, pictures in files, and below the title what it costs.

The notebook on the page is not the one that students work in; that one lies beside it to be downloaded, as it is released.
"""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import html
import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from across._jupyter.validation import NOT_ATTEMPTED
from course_site.about import About
from course_site.outputs import Executed
from course_site.words import Words

PICTURES = "pictures"  # the folder of pictures, in the site's _static
INLINE = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=\s]+)"')
IMAGE = re.compile(rf'<img src="\.\./_static/{PICTURES}/[^>]*>')
WIDTH = re.compile(r'<img [^>]*?width="(\d+)"')
HIDDEN = "hide-input"  # myst-nb's tag: the source is folded
DROPPED = ("application/vnd.jupyter.widget-view+json",)  # needs scripts from elsewhere


def chapter(about: About, executed: Executed, pictures: Path, links: list[str], words: Words) -> NotebookNode:
    """A chapter for Sphinx; its pictures are written into the folder `pictures`. `links`: Markdown, of where it is opened."""
    notebook = copy.deepcopy(executed.notebook)
    for cell in notebook.cells:
        cell.source = _filed(cell.source, pictures, None) if cell.cell_type == "markdown" else cell.source
        meta = cell.metadata
        tags = [tag for tag in meta.get("tags", []) if tag == HIDDEN]
        if meta.get("jupyter", {}).get("source_hidden"):
            tags.append(HIDDEN)
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if "outputs" in cell:
            cell.outputs = [_not_begun(output) for output in cell.outputs]
            for output in cell.outputs:
                _lighten(output, pictures)
    notebook.metadata = nbformat.from_dict({"kernelspec": notebook.metadata.kernelspec})
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(_costs(about, executed, links, words), id="what-it-costs"))
    return notebook


def picture(notebook: NotebookNode) -> str:
    """The first picture of a chapter for Sphinx, in its prose or an output, as HTML for a page beside it; empty if none."""
    for cell in notebook.cells:
        shown = [output.get("data", {}).get("text/html", "") for output in cell.get("outputs", [])]
        if found := IMAGE.search("\n".join([cell.source, *shown])):
            return found[0]
    return ""


def _costs(about: About, executed: Executed, links: list[str], words: Words) -> str:
    said = [f"[{words.said('What you can do after it')}](../about/{about.name}.md)", *links]
    shown = (
        words.said(
            "What you see below the cells is from {0}, before anyone has answered: a check says `○` or `✗`.",
            executed.machine,
        )
        if executed.machine
        else words.said("This page was built without running the chapter: no output and no picture is shown.")
    )
    return f":::{{admonition}} {facts(about, words)}\n:class: note\n{' · '.join(said)}\n\n{shown}\n:::"


def facts(about: About, words: Words) -> str:
    """How long it takes, how many exercises there are, and what they are worth."""
    count, hand = len(about.tasks), sum(task.by_hand for task in about.tasks)
    said = [
        words.said("{0} minutes", about.minutes) if about.minutes else "",
        words.said("{0} exercises", count) if count != 1 else words.said("1 exercise"),
        words.said("{0:g} points", about.points) if about.points != 1 else words.said("1 point"),
        words.said("{0} read by a person", hand) if hand else "",
    ]
    return words.said(", ").join(filter(None, said))


def _not_begun(output: NotebookNode) -> NotebookNode:
    """What a check says of an answer that nobody has written, as text: on an error's red it would look like one."""
    if output.get("ename") not in NOT_ATTEMPTED:
        return output
    return nbformat.v4.new_output("stream", name="stdout", text=f"○ {output.evalue}\n")


def _lighten(output: NotebookNode, pictures: Path) -> None:
    """Keep of an output the one form that the page shows, its pictures in files that browsers load when they are near."""
    if "data" not in output:
        return
    data: dict[str, Any] = {kind: value for kind, value in output.data.items() if kind not in DROPPED}
    if "text/html" in data:
        facts = output.get("metadata", {}).get("image/png", {})
        data = {"text/html": _filed(_joined(data["text/html"]), pictures, facts.get("height"))}
    elif "image/png" in data:
        alt = html.escape(str(output.get("metadata", {}).get("image/png", {}).get("alt", "")), quote=True)
        image = f'<img src="data:image/png;base64,{_joined(data["image/png"])}" alt="{alt}">'
        data = {"text/html": _filed(image, pictures, None)}
    output.data = nbformat.from_dict(data)


def _joined(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _filed(page: str, pictures: Path, height: int | None) -> str:
    """HTML with every PNG that it holds in a file; `height` in CSS pixels, so that no page moves as they come."""

    def file(found: re.Match[str]) -> str:
        try:
            png = base64.b64decode(found[1], validate=False)
        except binascii.Error:  # as it is, then
            return found[0]
        name = f"{hashlib.sha256(png).hexdigest()[:20]}.png"
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / name).write_bytes(png)
        width = WIDTH.search(page)
        size = "" if width else _size(png)
        size += f' height="{height}"' if height and width else ""
        return f'src="../_static/{PICTURES}/{name}"{size} loading="lazy"'

    return INLINE.sub(file, page)


def _size(png: bytes) -> str:
    """The width and height of a PNG as attributes, from its first chunk (PNG specification, 11.2.2)."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        return ""
    return f' width="{int.from_bytes(png[16:20])}" height="{int.from_bytes(png[20:24])}"'
