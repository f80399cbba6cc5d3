"""The site's own pages, in MyST Markdown: its front, and a page a chapter that a teacher sends to a colleague."""

from __future__ import annotations

import re

from autograder.model.address import Address
from autograder.model.course import Course
from course_site.about import About, Task
from course_site.staged import exercises

BAR = "\\|"  # within a table
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def front(course: Course, abouts: list[About], others: list[str], published: Address | None) -> str:
    """The first page: what there is, in order. `others`: pages besides the chapters', by their names."""
    hours = sum(each.minutes for each in abouts) / 60
    count = f"{len(abouts)} chapter{'s' * (len(abouts) != 1)}" + (f", about {hours:.0f} hours" if hours >= 1 else "")
    where = f" The notebooks are in [{published.path}]({published.url})." if published else ""
    parts = [
        f"# {course.title}",
        f"{count}, each a notebook that you run, answer and check on the machine that you have. The pages here show what it "
        f"prints and draws, and no answer.{where}",
        _table(abouts, "chapters/{}.ipynb", ("what you can do after it", "about/{}.md")),
        _tree("Chapters", [f"{_called(each)} <chapters/{each.name}>" for each in abouts]),
        _tree("More", ["about/index", *others]),
    ]
    return "\n\n".join(parts)


def overview(abouts: list[About]) -> str:
    """The page that leads to what one can do after each chapter."""
    parts = [
        "# After each chapter",
        "A page a chapter, for whoever thinks of teaching or taking it: what it asks, what one writes in it, and what one "
        "takes along. Each is made from the chapter itself.",
        _table(abouts, "{}.md", ("the chapter", "../chapters/{}.ipynb")),
        _tree("", [f"{_called(each)} <{each.name}>" for each in abouts]),
    ]
    return "\n\n".join(parts)


def _called(about: About) -> str:
    return f"{about.number} {about.title}".strip()


def _table(abouts: list[About], page: str, second: tuple[str, str]) -> str:
    """A row a chapter, its title linked to `page`; `second`: another link's text and page."""
    rows = ["| | chapter | minutes | points |", "|---|---|---|---|"]
    for each in abouts:
        question = f"{each.question}<br>" if each.question != each.title else ""
        links = f"[{each.title}]({page.format(each.name)})<br>{question}[{second[0]}]({second[1].format(each.name)})"
        rows.append(f"| {each.number} | {links.replace('|', BAR)} | {each.minutes or ''} | {each.points:g} |")
    return "\n".join(rows)


def after(about: About, picture: str, published: Address | None) -> str:
    """What one can do after a chapter: its question, what it asks for, what one takes along. `picture`: HTML."""
    core = [task for task in about.tasks if not task.optional]
    beyond = [task for task in about.tasks if task.optional]
    facts = [f"{about.minutes} minutes" if about.minutes else "", exercises(about)]
    parts = [
        f"# After {f'chapter {about.number}: ' if about.number else ''}{about.title}",
        f"**{about.question}**" if about.question and about.question != about.title else "",
        about.lead,
        picture,
        f"{', '.join(filter(None, facts))}. [Read the chapter](../chapters/{about.name}.ipynb). "
        + opened(published, about.name),
        "## What you will have written",
        _tasks(core),
        f"### In optional parts\n\n{_tasks(beyond)}" if beyond else "",
        f"## You take with you\n\n{about.taken}" if about.taken else "",
        f"## To copy next week\n\n{about.recipe}" if about.recipe else "",
        "## Its sections\n\n" + "\n".join(f"- {section}" for section in about.sections) if about.sections else "",
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
        name = target.rpartition("/")[2]
        if name in there:
            return f"[{found[2]}]({there[name]}{f'#{anchor}' if anchor else ''})"
        return found[2] if not found[1] else ""

    return LINK.sub(link, page)


def _tasks(tasks: list[Task]) -> str:
    return "\n".join(
        f"- **`{task.name}`** ({task.points:g} point{'s' * (task.points != 1)}{', read by a person' * task.by_hand}): "
        f"{task.asks or 'answered in the notebook.'}"
        for task in tasks
    )


def _tree(caption: str, names: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", *([f":caption: {caption}"] * bool(caption)), "", *names, "```"])
