"""Answers: the address of every document and file, documents as pages, and a cache of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from starlette.responses import Response

from vectrial.document.blocks import Figure, Report, Source, Table
from vectrial.document.render import html
from vectrial.document.render.html import DownloadKinds
from vectrial_web.serve.files import DATA, MEDIA

#: The form that starts a run, and the page of the process that was started last.
NEW, STARTED = "/new", "/started"


def run_address(run_id: str) -> str:
    """The address of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def data_address(run_id: str, name: str) -> str:
    """The address of a file of a run's data, or of one of its logs."""
    return f"{run_address(run_id)}/{'data' if name in DATA else 'logs'}/{quote(name, safe='')}"


@dataclass(frozen=True)
class ServedPlace:
    """The address of a document: a `vectrial.document.render.html.PagePlace`.

    base: its address. runs: addresses of the runs that its values come from. query: query of
        `base`.
    """

    base: str
    runs: tuple[str, ...] = ()
    crumbs: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    query: str = ""

    @property
    def is_served(self) -> bool:
        """True, since the pages are served."""
        return True

    @property
    def home(self) -> str:
        """The address of the list of runs."""
        return "/"

    @property
    def kinds(self) -> DownloadKinds:
        """All kinds of files, since they are made on demand."""
        return DownloadKinds()

    def link(self, href: str) -> str:
        """An address below the root."""
        return f"/{href}"

    def embed(self, figure: Figure) -> str:
        """Empty, since others cannot reach what is served here."""
        return ""

    def figure(self, figure: Figure, kind: str) -> str:
        """The address of a figure as 'svg' or 'png'."""
        return f"{self.base}/figure/{quote(figure.name, safe='')}.{kind}{self._tail}"

    def table(self, table: Table, kind: str) -> str:
        """The address of a table as 'csv' or 'parquet'."""
        return f"{self.base}/table/{quote(table.name, safe='')}.{kind}{self._tail}"

    def source(self, source: Source) -> str:
        """The address of the trial, or of the phases' values, from which a value was made."""
        run = self.runs[source.side]
        if source.trial is not None:
            return f"{run}/trials/{source.trial}"
        query = {"metric": source.metric, "phases": ",".join(map(str, source.phases))}
        if source.recall is not None:
            query["recall"] = repr(source.recall)
        return f"{run}/values?{urlencode(query, safe=',')}"

    @property
    def _tail(self) -> str:
        return f"?{self.query}" if self.query else ""


@dataclass(frozen=True)
class Document:
    """A report, its address and its template. key: equal for equal pages, which may then be cached;
    None for a page that is always rebuilt."""

    report: Report
    at: ServedPlace
    template: str = "report.html.j2"
    context: dict[str, Any] = field(default_factory=dict)
    key: Hashable | None = None


T = TypeVar("T")


class LruCache(Generic[T]):
    """A cache of the `most` last used values; one value is made at a time."""

    def __init__(self, capacity: int) -> None:
        self._most, self._lock = capacity, threading.RLock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value under the key, made if there is none."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                while len(self._values) > self._most:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]


_TEMPLATES = Path(__file__).parent / "templates"


def page(document: Document) -> html.HtmlPage:
    """A document, laid out by its template."""
    return html.page(
        document.report,
        document.at,
        template=document.template,
        more=_TEMPLATES,
        **document.context,
    )


def document_response(
    document: Document, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that shows a document."""
    return page_response(page(document), status, headers)


def page_response(
    page: html.HtmlPage, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that shows a page, with the content policy that it needs."""
    policy = {"content-security-policy": page.policy}
    return Response(
        page.text, status, {**(headers or {}), **policy}, media_type="text/html; charset=utf-8"
    )


def file_response(content: bytes, name: str) -> Response:
    """A file to download. Our file names contain only characters that a header can hold."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(content, headers=headers, media_type=MEDIA[name.rpartition(".")[2]])
