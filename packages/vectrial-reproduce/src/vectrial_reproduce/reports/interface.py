"""The cost of the client through which a report called its systems, beyond their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from vectrial.document import blocks as doc
from vectrial.document.blocks import Column, Row, Section, Table, columns
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.figures_render import Palette
from vectrial_reproduce.reports.page_tables import readable_name

_LEAD = (
    "The time of a call through the client that the report used, over that of the same call by the"
    " system's own client or on the wire: the same server and rows, measured here. Where it is well"
    " above 1, the published figures are of that client as well as of the system."
)


def section(cells: Sequence[ComparedFigure], palette: Palette) -> Iterator[Section]:
    """A table with a row for each system and metric; empty if no figure was measured through two
    clients."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        cost = None if figure_text.is_recall(cell.figure.metric) else cell.cost
        if cost is not None and cell.through is not None:
            key = (cell.figure.store, cell.through.client, cell.figure.metric)
            groups.setdefault(key, []).append(cost)
    if not groups:
        return
    rows = [
        Row.from_values(
            palette.measured(store), client, readable_name(metric), len(costs),
            *(doc.times_cell(of, 2)
              for of in (median(costs), min(costs), max(costs))),
            series=palette.series(store, False),
        )
        for (store, client, metric), costs in groups.items()
    ]  # fmt: skip
    heads = (
        *columns(store="Store", client="Through", metric="Metric", compared=("Figures", "")),
        *(
            Column(name, title, group="Through that client over without it")
            for name, title in (("cost", "Median"), ("cost_least", "Least"), ("cost_most", "Most"))
        ),
    )
    table = Table("interface", "The cost of the report's client", heads, tuple(rows))
    yield Section("interface", "What the report's client costs", _LEAD, (table,))
