"""Addresses of the application: every one is made here."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from vectrial.document.blocks import Figure, Report, Source, Table
from vectrial.document.render.html import Kinds
from vectrial_web.serve.files import DATA

#: The form that starts a run, and the page of the process that was started last.
NEW, STARTED = "/new", "/started"


def run_address(run_id: str) -> str:
    """The address of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def data_address(run_id: str, name: str) -> str:
    """The address of a file of a run's data, or of one of its logs."""
    return f"{run_address(run_id)}/{'data' if name in DATA else 'logs'}/{quote(name, safe='')}"


@dataclass(frozen=True)
class At:
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
    def served(self) -> bool:
        """True, since the pages are served."""
        return True

    @property
    def home(self) -> str:
        """The address of the list of runs."""
        return "/"

    @property
    def kinds(self) -> Kinds:
        """All kinds of files, since they are made on demand."""
        return Kinds()

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
    at: At
    template: str = "report.html.j2"
    context: dict[str, Any] = field(default_factory=dict)
    key: Hashable | None = None
