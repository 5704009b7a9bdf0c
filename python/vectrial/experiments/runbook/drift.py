"""What replacing rows does to recall: a slope with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vectrial.stats import student

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
    Student's interval of its standard error. None if there are fewer than three values, or if
    nothing was replaced between them."""
    if len(values) < LEAST_SEARCHES or min(rows) == max(rows):
        return None
    rounding = 1e-9 * max(map(abs, values))
    if max(values) - min(values) <= rounding:
        return Slope(0.0, 0.0, 0.0)
    from scipy import stats  # takes seconds to import, and every report imports this file

    fit = stats.linregress(rows, values)
    rise = float(fit.slope) * (max(rows) - min(rows))
    per_row = 0.0 if abs(rise) <= rounding else float(fit.slope)
    margin = student.quantile(_QUANTILE, len(values) - 2) * float(fit.stderr)
    return Slope(per_row, per_row - margin, per_row + margin)
