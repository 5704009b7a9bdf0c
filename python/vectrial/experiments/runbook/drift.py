"""What replacing rows does to recall: a slope with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

_CONFIDENCE = 0.95
#: Searches that a line needs: with two there is no interval.
LEAST_SEARCHES = 3


@dataclass(frozen=True)
class Slope:
    """Change per row, and the ends of its 95 % interval."""

    per_row: float
    low: float
    high: float


def slope(rows: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope of values over the rows replaced or deleted before them: least squares, with
    Student's interval of its standard error. None with fewer than three values, or where nothing
    was replaced between them."""
    if len(values) < LEAST_SEARCHES or min(rows) == max(rows):
        return None
    fit = stats.linregress(rows, values)
    margin = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(values) - 2)) * float(fit.stderr)
    return Slope(float(fit.slope), float(fit.slope) - margin, float(fit.slope) + margin)
