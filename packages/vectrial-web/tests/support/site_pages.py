"""What the tests of a site read on its pages: links, anchors and addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from vectrial_web.site.run_pages import RunResult


@dataclass(frozen=True)
class Built:
    """A site that was built. folder: its root. runs: the folder that it was built from."""

    folder: Path
    runs: Path
    results: list[RunResult]

    def page(self, name: str) -> str:
        """The text of a page."""
        return (self.folder / name).read_text(encoding="utf-8")


@dataclass
class Read:
    """Links of a page, its anchors, and what it would load from elsewhere."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    loads: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.read = Read()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            assert given["id"] not in self.read.anchors, f"two of {given['id']}"
            self.read.anchors.add(given["id"])
        if tag == "a" and "href" in given:
            self.read.links.append(given["href"])
        elif tag == "link" and not given["href"].startswith("data:"):
            self.read.loads.append(given["href"])
        elif tag in ("script", "img", "iframe", "object", "source") and given.get("src"):
            self.read.loads.append(given["src"])


def read(page: Path) -> Read:
    """The links and anchors of a page."""
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.read


def dead_links(root: Path) -> Iterator[str]:
    """Every link of every page below a folder that leads to no file there, or to no anchor."""
    pages = {path: read(path) for path in sorted(root.rglob("*.html"))}
    for path, found in pages.items():
        for link in dict.fromkeys(found.links):
            address, fragment = urldefrag(link)
            target = (path.parent / unquote(address)).resolve() if address else path
            if "://" in link or not target.is_relative_to(root) or not target.is_file():
                yield f"{path.relative_to(root)}: {link}"
            elif fragment and target in pages and unquote(fragment) not in pages[target].anchors:
                yield f"{path.relative_to(root)}: {link}: no such anchor"
