"""What the tests of the served pages share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser

from starlette.testclient import TestClient

from vectrial_web.serve.app import make_app
from vectrial_web.serve.auth import Access
from vectrial_web.serve.runs import Runs

TOKEN = "a-token-of-the-tests-that-is-long"
#: Makes a client of the application.
Client = Callable[..., TestClient]


def client_of(runs: Runs, host: str = "localhost:8877", **access: object) -> TestClient:
    """A client of the application over some runs, by default as a browser on this machine asks."""
    app = make_app(runs, Access(**access), threading.Event())  # type: ignore[arg-type]
    return TestClient(app, base_url=f"http://{host}", follow_redirects=False)


@dataclass
class Shown:
    """A figure of a page: where it stands (a table and the heading of its column, or "card" and
    the question), what is read there, and where that leads to, if anywhere."""

    table: str
    column: str
    text: str = ""
    href: str | None = None


class _Figures(HTMLParser):
    """Takes the cells of columns of numbers, and the figures of cards."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Shown] = []
        self._table, self._heads, self._at = "", [""], 0
        self._within, self._note = "", False
        self._open: Shown | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        classes = given.get("class", "").split()
        if given.get("id", "").startswith("table-"):
            self._table, self._heads = given["id"].removeprefix("table-"), []
        elif tag == "tr":
            self._at = 0
        elif tag == "th":
            self._heads.append("")
            self._within = "th"
        elif tag == "td" and "groups" not in classes:
            self._at += 1
            column = self._heads[self._at - 1] if self._at <= len(self._heads) else ""
            self._open = Shown(self._table, column) if "num" in classes else None
        elif tag == "h3" and self._within == "card":
            self._heads = [""]
            self._within = "question"
        elif tag == "div" and classes == ["card"]:
            self._within = "card"
        elif tag == "p" and classes == ["figure"]:
            self._open = Shown("card", self._heads[0].strip())
        elif tag == "sup":
            self._note = True
        elif tag == "a" and "v" in classes and self._open is not None:
            self._open.href = given["href"]

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "p") and self._open is not None:
            self.found.append(self._open)
            self._open = None
        elif tag in ("th", "h3"):
            self._within = ""
        elif tag == "sup":
            self._note = False

    def handle_data(self, data: str) -> None:
        if self._note:
            return
        if self._open is not None:
            self._open.text += f" {data.strip()}" if self._open.text else data.strip()
        elif self._within in ("th", "question"):
            self._heads[-1] += data.strip()


def figures_of(page: str) -> list[Shown]:
    """Every figure of a page that has a digit."""
    parser = _Figures()
    parser.feed(page)
    return [one for one in parser.found if any(c.isdigit() for c in one.text)]
