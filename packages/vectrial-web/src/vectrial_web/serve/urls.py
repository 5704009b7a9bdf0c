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
    """The page of a run."""
    return f"/runs/{quote(run_id, safe='')}"


def data_address(run_id: str, name: str) -> str:
    """A file of a run's data, or one of its logs."""
    return f"{run_address(run_id)}/{'data' if name in DATA else 'logs'}/{quote(name, safe='')}"


@dataclass(frozen=True)
class At:
    """The address of a document: a `vectrial.document.render.html.PagePlace`.

    base: its address. runs: those of the runs whose trials its values come from. query: of `base`.
    """

    base: str
    runs: tuple[str, ...] = ()
    crumbs: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    query: str = ""

    @property
    def served(self) -> bool:
        """It is."""
        return True

    @property
    def home(self) -> str:
        """The list of runs."""
        return "/"

    @property
    def kinds(self) -> Kinds:
        """All that are made on demand."""
        return Kinds()

    def link(self, href: str) -> str:
        """An address below the root."""
        return f"/{href}"

    def embed(self, figure: Figure) -> str:
        """None: others cannot reach what is served here."""
        return ""

    def figure(self, figure: Figure, kind: str) -> str:
        """A figure as 'svg' or 'png'."""
        return f"{self.base}/figure/{quote(figure.name, safe='')}.{kind}{self._tail}"

    def table(self, table: Table, kind: str) -> str:
        """A table as 'csv' or 'parquet'."""
        return f"{self.base}/table/{quote(table.name, safe='')}.{kind}{self._tail}"

    def source(self, source: Source) -> str:
        """The trial, or the values of the phases, that a value was made of."""
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
    """A report, its address and its template. key: the same for the same page, which may then be
    cached; None for one that is made anew."""

    report: Report
    at: At
    template: str = "report.html.j2"
    context: dict[str, Any] = field(default_factory=dict)
    key: Hashable | None = None
