"""The section of an experiment whose figures fit one table: which phases, keys and columns.

Experiments declare it, but may run in a store's own environment, which has no library for reports.
So the code that reads runs and draws is imported where a section is made
(`vectrial.document.sections`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vectrial.document.blocks import Column, Figure, Table
from vectrial.model.results_schema import MetricName

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

    phases: phases that have rows. keys: parameters that distinguish rows, with their headings.
    columns: metrics. figures: drawn above the table. summary: tables between the two. notes: under
        the table. Each of the last three is a function, or the name of one, such as
        "package.module:function", whose module the measuring process cannot import.
    only: the parameter that a point must have to be shown; empty: every point is.
    hidden: parameters that are not shown among a point's settings.
    growing: sizes of one dataset share a table.
    slug: slug of the section, if it differs from the experiment's name.
    sparse: a cell is empty if a phase is of another kind and lacks the metric; else it says that it
        was not recorded.
    """

    title: str
    lead: str
    phases: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    figures: Callable[[RunData, Facet, Sequence[Point], Looks], list[Figure]] | str = ""
    summary: Callable[[RunData, Facet, Sequence[Point]], list[Table]] | str = ""
    notes: Callable[[RunData, Facet], list[str]] | str = ""
    only: str = ""
    hidden: tuple[str, ...] = ()
    growing: bool = False
    sparse: bool = False
    slug: str = ""


def metric(of: str | MetricName, title: str, group: str = "") -> Column:
    """The column of a metric, given itself or by its name in `METRICS`, below a heading that
    several columns share."""
    name = of if isinstance(of, str) else of.name
    return Column.for_metric(of, title, group, spread=name not in COUNTS)


LATENCY = (
    metric("latency_p50", "p50", "Latency"),
    metric("latency_p99", "p99", "Latency"),
)
VERIFIED = (
    metric("count", "Done"),
    metric("errors", "Errors"),
    metric("ineffective", "Wrong"),
)
STEPS = tuple(
    metric(f"{s}_s", s.replace("_", " "), "Seconds")
    for s in ("load", "flush", "build", "wait", "first_search")
)
