"""What replacing rows does to recall: a slope with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

#: Of the two-sided 95 % interval.
_QUANTILE = 0.975
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
    per_row, error = float(fit.slope), float(fit.stderr)
    # Of values that are all the same the error is not defined, and rounding is no slope.
    if abs(per_row) * (max(rows) - min(rows)) <= 1e-9 * max(map(abs, values)):
        per_row = 0.0
    margin = 0.0 if math.isnan(error) else float(stats.t.ppf(_QUANTILE, len(values) - 2)) * error
    return Slope(per_row, per_row - margin, per_row + margin)
