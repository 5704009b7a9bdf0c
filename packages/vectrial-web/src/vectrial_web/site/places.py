"""Addresses of a site: every page, figure and table has its own, relative to the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from vectrial.document.blocks import Figure, Source, Table
from vectrial.document.render.html import DownloadKinds
from vectrial.util.file_names import slug

#: Present in every site: a folder with it may be replaced, and holds copies of runs, not runs.
MARKER = ".vectrial-site"
#: Pages below the root of a site.
HOME, RUNS, VERSIONS = "index.html", "runs.html", "versions.html"


def question_page(name: str) -> str:
    """The address of a question's page."""
    return f"questions/{name}.html"


def store_page(name: str) -> str:
    """The address of a store's page."""
    return f"stores/{slug(name)}.html"


def dataset_page(name: str) -> str:
    """The address of a dataset's page."""
    return f"datasets/{slug(name)}.html"


def run_page(run_id: str) -> str:
    """The address of a run's page."""
    return f"runs/{run_id}/index.html"


@dataclass(frozen=True)
class SitePlace:
    """The place of a page in a site: a `vectrial.document.render.html.PagePlace`.

    page: its address below the root. files: the folder of its tables and figures, below the root;
        empty: tables have no files. base_url: the address of the site; empty: not known. source_of:
        maps the origin of a value to an address below the root.
    """

    page: str
    crumbs: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    files: str = ""
    source_of: Callable[[Source], str] | None = None
    base_url: str = ""

    @property
    def is_served(self) -> bool:
        """False, since any web server, or none, can show the page."""
        return False

    @property
    def kinds(self) -> DownloadKinds:
        """Kinds of files that are written next to a page."""
        return DownloadKinds(("svg",), ("json", "parquet"))

    @property
    def home(self) -> str:
        """The address of the front page."""
        return self.link(HOME)

    def link(self, href: str) -> str:
        """The address of `href` below the root; an address of another site is left unchanged."""
        if "://" in href:
            return href
        return "../" * self.page.count("/") + quote(href, safe="/#?=&,.:-_~")

    def figure(self, figure: Figure, kind: str) -> str:
        """A figure as 'svg'."""
        return self.link(f"{self.files}/{figure.name}.{kind}")

    def embed(self, figure: Figure) -> str:
        """HTML of an image that links to the page."""
        if not self.base_url:
            return ""
        picture = f"{self.base_url}/{quote(f'{self.files}/{figure.name}.svg')}"
        page = f"{self.base_url}/{quote(self.page)}#{quote(figure.name)}"
        return f'<a href="{page}"><img src="{picture}" alt="{escape(figure.alt)}"></a>'

    def table(self, table: Table, kind: str) -> str:
        """A table as 'json' or 'parquet'."""
        return self.link(f"{self.files}/{table.name}.{kind}")

    def source(self, source: Source) -> str:
        """The address of the values from which a figure was made."""
        assert self.source_of is not None
        return self.link(self.source_of(source))
