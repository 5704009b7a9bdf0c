"""Quality of a likeness as a test that separates normal things from anomalies.

Likeness is greater for things that are more like the known normal ones. A likeness below a
threshold is reported as an anomaly.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Likeness = NDArray[np.float64]


def auroc(normal: Likeness, anomalous: Likeness) -> float | None:
    """The chance that an anomaly is less like the normal than a normal item is; ties count half.
    The area under the ROC curve (Hanley & McNeil 1982); None if either side is empty."""
    if not len(normal) or not len(anomalous):
        return None
    ordered = np.sort(normal)
    not_above = np.searchsorted(ordered, anomalous, "right")
    below = np.searchsorted(ordered, anomalous, "left")
    wins = len(ordered) - not_above + 0.5 * (not_above - below)
    return float(wins.mean() / len(ordered))


def threshold_for(normal: Likeness, rate: float) -> float | None:
    """The threshold below which another normal item falls with a probability of at most `rate`.

    It is the ⌊rate · (n + 1)⌋-th smallest of n held-out normal items (split conformal prediction,
    Papadopoulos et al. 2002). This holds for any distribution if held-out and later items are
    exchangeable. None if n < 1/rate - 1: so few say nothing about so rare an alarm.
    """
    # What binary fractions lack: 0.07 · 100 is 7, not 7.000000000000001 or 6.999999999999999.
    rank = math.floor(round(rate * (len(normal) + 1), 9))
    if rank < 1:
        return None
    return float(np.sort(normal)[min(rank, len(normal)) - 1])


def share_below(likeness: Likeness, threshold: float) -> float | None:
    """The share flagged as anomalous; None if there are no items."""
    return float((likeness < threshold).mean()) if len(likeness) else None
