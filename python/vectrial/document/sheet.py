"""The section of an experiment whose figures fit one table: which phases, keys and columns.

Experiments declare it, and run where a store's own environment has no library for reports: what
reads runs and draws is imported where a section is made (`vectrial.document.sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vectrial.document.blocks import Column, Figure, Table

if TYPE_CHECKING:
    from vectrial.analysis.analysis import Facet
    from vectrial.analysis.run_data import Point, RunData
    from vectrial.document.charts.theme import Looks

#: Metrics that are counted, and have no spread; and those that are shares.
COUNTS = (
    "count", "errors", "incomplete_results", "violations", "verified", "ineffective",
    "stale_results", "unsent",
)  # fmt: skip
SHARES = ("load_overhead", "ready_overhead", "share_found")
#: Stands for the search parameters among a row's keys.
SETTING = "setting"


@dataclass(frozen=True)
class Sheet:
    """One experiment's section.

    phases: those that have rows. keys: parameters that tell rows apart, with their headings.
    columns: metrics. figures: drawn above the table. summary: tables between the two. notes: under
        the table.
    only: the parameter that a point must have to be shown; empty: every point is.
    hidden: parameters that are not shown among a point's settings.
    growing: sizes of one dataset share a table.
    slug: of the section, where it is not the experiment's name.
    sparse: a cell is empty where a phase is of another kind and has no such metric; else it says
        that it was not recorded.
    """

    title: str
    lead: str
    phases: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    figures: Callable[[RunData, Facet, Sequence[Point], Looks], list[Figure]] | None = None
    summary: Callable[[RunData, Facet, Sequence[Point]], list[Table]] | None = None
    notes: Callable[[RunData, Facet], list[str]] | None = None
    only: str = ""
    hidden: tuple[str, ...] = ()
    growing: bool = False
    sparse: bool = False
    slug: str = ""


def metric(key: str, title: str, unit: str, group: str = "") -> Column:
    """A column of a metric, with its unit, below a heading that several share."""
    return Column(key, title, unit, group, spread=key not in COUNTS)


LATENCY = (
    metric("latency_p50", "p50", "us", "Latency"),
    metric("latency_p99", "p99", "us", "Latency"),
)
VERIFIED = (
    metric("count", "Done", "1"),
    metric("errors", "Errors", "1"),
    metric("ineffective", "Wrong", "1"),
)
STEPS = tuple(
    metric(f"{s}_s", s.replace("_", " "), "s", "Seconds")
    for s in ("load", "flush", "build", "wait", "first_search")
)
