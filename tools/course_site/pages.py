"""The site's own pages, in MyST Markdown: its front, and a page a chapter that a teacher sends to a colleague."""

from __future__ import annotations

import html
import re

from across._language.catalogue import LANGUAGES, TAGS
from autograder.model.address import Address
from course_site.about import About, Task
from course_site.staged import facts
from course_site.words import Words

BAR = "\\|"  # within a table
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def front(title: str, abouts: list[About], others: list[str], published: Address | None, words: Words) -> str:
    """The first page: what there is, in order. `others`: pages besides the chapters', by their names."""
    hours = sum(each.minutes for each in abouts) / 60
    count = words.said("{0} chapters", len(abouts)) if len(abouts) != 1 else words.said("1 chapter")
    count += words.said(", about {0:.0f} hours", hours) if hours >= 1 else ""
    where = words.said(" The notebooks are in {0}.", f"[{published.path}]({published.url})") if published else ""
    about = words.said(
        "{0}, each a notebook that you run, answer and check on the machine that you have. The pages here show what it "
        "prints and draws, and no answer.",
        count,
    )
    ours = _of(words, abouts)
    parts = [
        f"# {title}",
        f"{about}{where}",
        _table(abouts, "chapters/{}.ipynb", (words.said("what you can do after it"), "about/{}.md"), words),
        _tree(words.said("Chapters"), [f"{_called(each)} <chapters/{each.name}>" for each in ours]),
        _tree(words.said("More"), ["about/index", *others]),
    ]
    return "\n\n".join(parts)


def overview(abouts: list[About], words: Words) -> str:
    """The page that leads to what one can do after each chapter."""
    parts = [
        f"# {words.said('After each chapter')}",
        words.said(
            "A page a chapter, for whoever thinks of teaching or taking it: what it asks, what one writes in it, and what one "
            "takes along. Each is made from the chapter itself."
        ),
        _table(abouts, "{}.md", (words.said("the chapter"), "../chapters/{}.ipynb"), words, "about/"),
        _tree("", [f"{_called(each)} <{each.name}>" for each in _of(words, abouts)]),
    ]
    return "\n\n".join(parts)


def _of(words: Words, abouts: list[About]) -> list[About]:
    """The chapters that are there in the language."""
    return [each for each in abouts if each.language == words.language]


def _called(about: About) -> str:
    return f"{about.number} {about.title}".strip()


def _table(abouts: list[About], page: str, second: tuple[str, str], words: Words, here: str = "") -> str:
    """A row a chapter, its title linked to `page`; `second`: another link's text and page; `here`: the folder of this page.

    A chapter that is not there in the language is linked to in its own, a page that Sphinx does not know of.
    """
    rows = [
        f"| | {words.said('chapter')} | {words.said('minutes')} | {words.said('points')} |",
        "|---|---|---|---|",
    ]
    for each in abouts:
        if each.language == words.language:
            question = each.question if each.question != each.title else ""
            links = [
                f"[{each.title}]({page.format(each.name)})",
                question,
                f"[{second[0]}]({second[1].format(each.name)})",
            ]
        else:
            place = f"{'../' * (1 + here.count('/'))}{here}{page.format(each.name).partition('.')[0]}.html"
            tag = TAGS[each.language]
            title = f'<a href="{place}" lang="{tag}" hreflang="{tag}">{html.escape(each.title)}</a>'
            links = [title, words.said("in English only")]
        told = "<br>".join(filter(None, links))
        rows.append(f"| {each.number} | {told.replace('|', BAR)} | {each.minutes or ''} | {each.points:g} |")
    return "\n".join(rows)


def after(about: About, picture: str, published: Address | None, words: Words) -> str:
    """What one can do after a chapter: its question, what it asks for, what one takes along. `picture`: HTML."""
    core = [task for task in about.tasks if not task.optional]
    beyond = [task for task in about.tasks if task.optional]
    heading = (
        words.said("After chapter {0}: {1}", about.number, about.title)
        if about.number
        else words.said("After {0}", about.title)
    )
    chapter = f"[{words.said('Read the chapter')}](../chapters/{about.name}.ipynb)"
    sections = "\n".join(f"- {section}" for section in about.sections)
    parts = [
        f"# {heading}",
        f"**{about.question}**" if about.question and about.question != about.title else "",
        about.lead,
        picture,
        words.said("{0}. {1}. ", facts(about, words), chapter) + opened(published, about.name),
        f"## {words.said('What you will have written')}",
        _tasks(core, words),
        f"### {words.said('In optional parts')}\n\n{_tasks(beyond, words)}" if beyond else "",
        f"## {words.said('You take with you')}\n\n{about.taken}" if about.taken else "",
        f"## {words.said('To copy next week')}\n\n{about.recipe}" if about.recipe else "",
        f"## {words.said('Its sections')}\n\n{sections}" if sections else "",
    ]
    return "\n\n".join(part for part in parts if part)


def opened(published: Address | None, name: str) -> str:
    """Links that open a chapter on a machine elsewhere; empty where no address is known."""
    if published is None:
        return ""
    links = [("Open in Colab", published.colab(name)), ("Open on Binder", published.binder(name))]
    return " · ".join(f"[{says}]({link})" for says, link in links if link)


def relinked(page: str, there: dict[str, str]) -> str:
    """A page of docs/ with its links to other pages of the site, by `there`; what is not on the site is no link."""

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found[3].partition("#")
        if "://" in target or not target:
            return found[0]
        folder, _, name = target.rpartition("/")
        # a page in another language is the twin of one, which is linked to anyway
        if name in there and folder not in LANGUAGES:
            return f"[{found[2]}]({there[name]}{f'#{anchor}' if anchor else ''})"
        return found[2] if not found[1] else ""

    return LINK.sub(link, page)


def _tasks(tasks: list[Task], words: Words) -> str:
    said = []
    for task in tasks:
        worth = words.said("{0:g} points", task.points) if task.points != 1 else words.said("1 point")
        worth += words.said(", read by a person") if task.by_hand else ""
        said.append(
            words.said("- **`{0}`** ({1}): {2}", task.name, worth, task.asks or words.said("answered in the notebook."))
        )
    return "\n".join(said)


def _tree(caption: str, names: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", *([f":caption: {caption}"] * bool(caption)), "", *names, "```"])
