"""Signs in repeats that something else than the store was measured: outliers and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: Least number of repeats for an outlier or a trend to be detected.
LEAST = 5
#: Modified z-score beyond which a value is an outlier (Iglewicz & Hoaglin 1993).
OUTLYING = 3.5
#: And how far, as a share of the median, so that a fluke among near-equal values is none.
OUTLYING_SHARE = 0.1
#: Change from the first repeat to the last that is worth a word, as a share.
DRIFT_SHARE = 0.05
#: Chance of seeing so steady a trend where there is none.
DRIFT_P = 0.05


def outliers(values: Sequence[float]) -> list[int]:
    """Indices of the outliers: modified z-score 0.6745 |x - median| / MAD beyond 3.5, and at least
    a tenth of the median away. Fewer than `LEAST` values have none."""
    if len(values) < LEAST:
        return []
    sample = np.asarray(values, dtype=np.float64)
    median = float(np.median(sample))
    away = np.abs(sample - median)
    scale = float(np.median(away))
    far = away > OUTLYING_SHARE * abs(median)
    beyond = 0.6745 * away > OUTLYING * scale
    return [int(i) for i in np.flatnonzero(far & beyond)]


def drift(values: Sequence[float]) -> float | None:
    """Change over the repeats in the order measured, as a share of the first, if they rise or fall
    steadily: Kendall's trend test (Mann 1945) and the slope of Theil (1950) and Sen (1968) of the
    logarithms. None if there is no trend, or it is small."""
    if len(values) < LEAST or min(values) <= 0:
        return None
    from scipy import stats  # takes seconds to import, and every command imports this file

    logs = np.log(np.asarray(values, dtype=np.float64))
    turns = np.arange(len(logs))
    if np.ptp(logs) == 0 or float(stats.kendalltau(turns, logs).pvalue) > DRIFT_P:
        return None
    slope = float(stats.theilslopes(logs, turns).slope)
    change = math.expm1(slope * (len(logs) - 1))
    return change if abs(change) >= DRIFT_SHARE else None


def is_first_outlier(values: Sequence[float]) -> bool:
    """True if the first repeat alone is an outlier: cold caches, or a machine not awake."""
    return outliers(values) == [0]
