"""Where a released folder is pushed to, and the links that follow from it: to Colab and to Binder.

    Address.read("https://github.com/OWNER/NAME")         the branch main
    Address.read("https://github.com/OWNER/NAME@autumn")  another branch or tag

An address is said by whoever publishes (`course.toml`, or the command): nothing here knows one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from autograder.model.limits import CourseError

FORM = re.compile(r"https://([\w.-]+)/([\w.~-]+(?:/[\w.~-]+)+)/?(?:@([\w./-]+))?")
MAIN = "main"
COLAB_FOLDER = "colab"  # of a released folder: the variants that install what they need
BINDER_HOSTS = {"github.com": "gh", "gitlab.com": "gl"}


@dataclass(frozen=True)
class Address:
    """A public git repository over HTTPS, and the branch or tag that students get."""

    host: str  # "github.com"
    path: str  # "owner/name"
    ref: str = MAIN

    @classmethod
    def read(cls, where: str, said: str) -> Address:
        """What `said` names. Raises CourseError, which begins with `where`."""
        found = FORM.fullmatch(said.strip())
        if not found:
            raise CourseError(
                f"{where} {said!r}: is no address of a public repository; write it like https://HOST/OWNER/NAME, and "
                "@BRANCH behind it if it is not main"
            )
        return cls(found[1].lower(), found[2].removesuffix(".git"), found[3] or MAIN)

    @property
    def url(self) -> str:
        """The repository, for a browser and for git."""
        return f"https://{self.host}/{self.path}"

    def colab(self, name: str) -> str:
        """Opens the chapter's variant for Colab; empty where Colab cannot read the host."""
        if self.host != "github.com":
            return ""
        place = f"{self.path}/blob/{quote(self.ref)}/{COLAB_FOLDER}/{quote(name)}.ipynb"
        return f"https://colab.research.google.com/github/{place}"

    def binder(self, name: str) -> str:
        """Opens the chapter in JupyterLab on a machine of Binder's."""
        host = BINDER_HOSTS.get(self.host, "git")
        place = quote(self.path, safe="/" if host == "gh" else "") if host != "git" else quote(self.url, safe="")
        page = f"lab/tree/notebooks/{quote(name)}.ipynb"
        return f"https://mybinder.org/v2/{host}/{place}/{quote(self.ref, safe='')}?urlpath={page}"
