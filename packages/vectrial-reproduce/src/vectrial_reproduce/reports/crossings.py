"""The number of rows at which a measured series crosses the line that a report draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from vectrial_reproduce.reports.figures_data import Plot

#: More digits would claim more than an interpolation gives.
_DIGITS = 2


def crossing_rows(points: Sequence[tuple[float, float]], limit: float) -> float | None:
    """Rows at which a series first exceeds `limit`, between two measured sizes.

    The logarithm of the value is taken to be linear in the logarithm of the rows between
    neighbours: a power law, as of latencies that grow with the rows. Nothing is extrapolated.

    Args:
        points: (rows, value), both above 0, in any order.

    Returns:
        None if every value is at most `limit`; the smallest size if that already exceeds it.
    """
    ordered = sorted(points)
    if ordered and ordered[0][1] > limit:
        return ordered[0][0]
    for (rows, value), (more, above) in pairwise(ordered):
        if value <= limit < above:
            share = math.log(limit / value) / math.log(above / value)
            return math.exp(math.log(rows) + share * math.log(more / rows))
    return None


def sentences(plot: Plot, name: Callable[[str], str]) -> Iterator[str]:
    """A sentence on where each measured series of a figure crosses its line; empty if the figure
    has no line, or nothing was measured along its rows.

    name: returns the name of a system.
    """
    limit = plot.drawing.limit
    series: dict[str, list[tuple[float, float]]] = {}
    for dot in plot.measured:
        if dot.x is not None and dot.x > 0 and dot.value > 0:
            series.setdefault(dot.system, []).append((dot.x, dot.value))
    if limit is None or not series:
        return
    found = "; ".join(f"{name(system)} {_crossing(of, limit)}" for system, of in series.items())
    yield (
        "Rows at which each crosses that line, interpolated between the measured sizes (log-log):"
        f" {found}."
    )


def _crossing(points: Sequence[tuple[float, float]], limit: float) -> str:
    sizes = [rows for rows, _ in points]
    rows = crossing_rows(points, limit)
    if rows is None:
        return f"not within {max(sizes):,.0f} rows"
    if rows == min(sizes):
        return f"at {rows:,.0f} rows or fewer, the smallest size"
    return f"at about {_round_rows(rows):,} rows"


def _round_rows(rows: float) -> int:
    return round(float(f"{rows:.{_DIGITS}g}"))
