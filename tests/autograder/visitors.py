"""A student's browser at a JupyterHub, without its window: signs in, starts the server, asks it as JupyterLab does."""

from __future__ import annotations

import http.cookiejar
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

STARTS = 240.0  # seconds until a server serves; a deadline


class Visitor:
    """Who has signed in to the hub at an address, and asks their own server."""

    def __init__(self, address: str, name: str, password: str) -> None:
        self.address, self.name = address, name
        self.cookies = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        self._open(f"{address}/hub/login")
        form = {"username": name, "password": password, "_xsrf": self._xsrf("/hub/")}
        self.signed_in = self._open(f"{address}/hub/login?next=%2Fhub%2Fhome", urllib.parse.urlencode(form).encode())

    def _xsrf(self, path: str) -> str:
        return next((each.value or "" for each in self.cookies if each.name == "_xsrf" and each.path == path), "")

    def _open(
        self, url: str, data: bytes | None = None, method: str | None = None, **headers: str
    ) -> tuple[int, str, str]:
        """Status, text and the address at which all redirects ended."""
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self.opener.open(request, timeout=120) as answer:
                return answer.status, answer.read().decode(), answer.url
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace"), error.url or url

    def start(self) -> float:
        """Start the server; the seconds until it serves."""
        begun = time.monotonic()
        self._open(f"{self.address}/hub/spawn/{self.name}")
        while time.monotonic() < begun + STARTS:
            status, _, url = self._open(f"{self.address}/user/{self.name}/lab")  # a page, which leads to the sign-in
            if status == 200 and "/hub/" not in url:
                return time.monotonic() - begun
            time.sleep(0.3)
        raise AssertionError(f"{self.name}'s server does not serve")

    def ask(self, path: str, body: Any = None, whose: str = "", method: str | None = None) -> tuple[int, str]:
        """GET, or POST of JSON, to one's own server or `whose`; status and text, 403 where the hub wants another person."""
        base = f"/user/{whose or self.name}/"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-XSRFToken": self._xsrf(base)} if data or method else {}
        status, text, url = self._open(f"{self.address}{base}{path}", data, method, **headers)
        return (403, "") if f"{base}{path.partition('?')[0]}" not in url else (status, text)

    def exchange(self, action: str, chapter: str, course: str) -> dict[str, Any]:
        """What a button of nbgrader's list of assignments does: `fetch`, `submit`, `fetch_feedback`."""
        status, text = self.ask(f"assignments/{action}", {"course_id": course, "assignment_id": chapter})
        assert status == 200, text
        said = json.loads(text)
        assert said["success"], said["value"]
        return said
