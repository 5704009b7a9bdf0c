"""The report's method beside Vectrial's: what each makes of the same published figures."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from vectrial.document import blocks as doc
from vectrial.document.blocks import Column, Row, Table, columns
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.page_tables import readable_name
from vectrial_reproduce.reports.tables import system

_NOTE = (
    "Measured over published, the median over the figures: by the report's method, as far as"
    " possible, and by Vectrial's; each on the machine of its bundle, with the same rows, which may"
    " be fewer than the report's, and with other versions. Rates are the better the larger they"
    " are, times the smaller. Single calls are left out."
)


def table(name: str, pairs: Iterable[tuple[ComparedFigure, ComparedFigure]]) -> Table | None:
    """A row for each system and metric; None if no figure was measured with both methods.

    name: name of the table. pairs: each published figure by the report's method, and by Vectrial's.
        Times of a system that lacks what the report's had, or of a few calls, are left out.
    """
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for theirs, ours in pairs:
        alike = theirs.valid and ours.valid and theirs.rows == ours.rows and not theirs.lacks
        alike = alike and not (theirs.few_calls or ours.few_calls)
        is_time = not figure_text.is_recall(theirs.figure.metric)
        if alike and is_time and theirs.ratio and ours.ratio:
            key = (system(theirs.figure.store, theirs.here), theirs.figure.metric)
            groups.setdefault(key, []).append((theirs.ratio, ours.ratio))
    if not groups:
        return None
    heads = (
        *columns(store="Store", metric="Metric", figures=("Figures", "")),
        Column("faithful", "The report's method"),
        Column("fair", "Vectrial's"),
    )
    rows = (
        Row.from_values(
            store, readable_name(metric), len(ratios), *map(_ratio, zip(*ratios, strict=True))
        )
        for (store, metric), ratios in groups.items()
    )
    title = "The report's method beside Vectrial's"
    return Table(name, title, heads, tuple(rows), (_NOTE,), grouped_by=0)


def _ratio(ratios: tuple[float, ...]) -> doc.Cell:
    return doc.times_cell(median(ratios), 2)
