"""What in a built site leads to no page, anchor or picture that is there, and what is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}


def broken(folder: Path) -> list[str]:
    """A line for each link of the HTML pages below `folder` that leads nowhere. Raises OSError."""
    soups = {page.resolve(): _read(page) for page in folder.rglob("*.html")}
    anchors = {page: {str(each["id"]) for each in soup.find_all(id=True)} for page, soup in soups.items()}
    return sorted({line for page in soups for line in _of_page(folder.resolve(), page, soups[page], anchors)})


def _read(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def _of_page(folder: Path, page: Path, soup: BeautifulSoup, anchors: dict[Path, set[str]]) -> list[str]:
    found = []
    where = page.relative_to(folder).as_posix()
    for tag, attribute in [("a", "href"), *LOADED.items()]:
        for each in soup.find_all(tag):
            target = str(each.get(attribute) or "")
            parts = urlsplit(target)
            if not target or target.startswith("data:"):
                continue
            if parts.scheme or parts.netloc:
                if tag in LOADED and "canonical" not in (each.get("rel") or []):
                    found.append(f"{where}: loads {target} from elsewhere")
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not path.is_relative_to(folder) or not path.is_file():
                found.append(f"{where}: links to {target}, which is not there")
            elif tag == "a" and parts.fragment and unquote(parts.fragment) not in anchors.get(path, ()):
                found.append(f"{where}: links to {target}, which has no such anchor")
    return found
