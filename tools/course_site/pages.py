"""The site's own pages, in MyST Markdown: its front, and a page a chapter that a teacher sends to a colleague."""

from __future__ import annotations

import functools
import html
import re

from across._jupyter import start
from across._language.catalogue import ENGLISH, LANGUAGES, TAGS
from autograder.model.address import Address
from course_site.about import About, Task
from course_site.staged import facts
from course_site.words import Words

ORPHAN = "---\norphan: true\n---\n\n"  # for Sphinx: it is in no list of pages, the first page's table leads to it
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
    elsewhere = published if words.language == ENGLISH else None  # links there open the English notebook
    at_once = opened(elsewhere, abouts[0].name)
    parts = [
        f"# {title}",
        f"{about}{where}",
        _pictured(ours, words),
        words.said("In the folder of the course, on a machine with Python and pip:"),
        "```bash\npip install uv\nuv run across lab\n```",
        words.said("Or begin at once, with nothing installed here: {0}.", at_once) if at_once else "",
        f"## {words.said('What you do in each chapter')}",
        _table(abouts, words),
        _tree(words.said("Chapters"), [f"{_called(each)} <chapters/{each.name}>" for each in ours]),
        _tree(words.said("More"), others) if others else "",
    ]
    return "\n\n".join(filter(None, parts))


def _pictured(abouts: list[About], words: Words) -> str:
    """The picture at the top of the start page, with the words below it, as HTML; "" where the course has not its chapter."""
    say = functools.partial(start.say, language=words.language)
    pictured = next((each for each in abouts if each.name == start.PICTURED), None)
    return start.TEMPLATES.get_template("lanes.html").render(pictured=pictured, say=say) if pictured else ""


def _of(words: Words, abouts: list[About]) -> list[About]:
    """The chapters that are there in the language."""
    return [each for each in abouts if each.language == words.language]


def _called(about: About) -> str:
    return f"{about.number} {about.title}".strip()


def _table(abouts: list[About], words: Words) -> str:
    """A row a chapter. One that is not there in the language is linked to in its own, a page that Sphinx does not know of."""
    rows = [f"| | {words.said('chapter')} | {words.said('what you do in it')} |", "|---|---|---|"]
    for each in abouts:
        if each.language == words.language:
            links = [
                f"[{each.title}](chapters/{each.name}.ipynb)",
                each.question if each.question != each.title else "",
            ]
            does = f"{each.does} [{words.said('what you can do after it')}](about/{each.name}.md)".lstrip()
        else:
            place, tag = f"../chapters/{each.name}.html", TAGS[each.language]
            title = f'<a href="{place}" lang="{tag}" hreflang="{tag}">{html.escape(each.title)}</a>'
            links, does = [title, words.said("in English only")], ""
        told = [part.replace("|", BAR) for part in (each.number, "<br>".join(filter(None, links)), does)]
        rows.append(f"| {' | '.join(told)} |")
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
        f"{ORPHAN}# {heading}",
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
