"""The effect of a lost node on requests, second by second and in a few moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Recall has recovered if it is within this of its earlier value.
NEAR = 0.01


@dataclass(frozen=True)
class RequestLog:
    """Every request that was sent, of any kind.

    sent, done: float64 (n,), seconds from the loss. failed: bool (n,). short: bool (n,), an answer
    of fewer rows than asked for. recall: float64 (n,), NaN where there is none.
    """

    sent: NDArray[np.float64]
    done: NDArray[np.float64]
    failed: NDArray[np.bool_]
    short: NDArray[np.bool_]
    recall: NDArray[np.float64]

    @property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Mask of the requests that failed, and of short answers."""
        return self.failed | self.short

    def sent_between(self, begin_s: float, end_s: float) -> RequestLog:
        """The requests that were sent in this interval."""
        chosen = (self.sent >= begin_s) & (self.sent < end_s)
        return RequestLog(
            *(getattr(self, name)[chosen] for name in ("sent", "done", "failed", "short", "recall"))
        )

    def mean_recall(self) -> float | None:
        """Mean recall of the answers; None if there are none."""
        known = self.recall[~np.isnan(self.recall)]
        return float(known.mean()) if len(known) else None


def moments(
    requests: RequestLog, back_s: float, end_s: float
) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """The experiment's moments, and the reasons for missing ones.

    Args:
        back_s: when the fault was ended, in seconds from the loss; end_s: the end of the load.

    Returns:
        Metrics by name, and reasons by the names of missing metrics.
    """
    found: dict[str, float] = {}
    missing: dict[str, str] = {}
    lost, after = requests.sent_between(0.0, back_s), requests.sent_between(back_s, end_s)
    parts = {
        "recall_before": requests.sent_between(-np.inf, 0.0),
        "recall_lost": lost,
        "recall_after": after,
    }
    for name, part in parts.items():
        if (value := part.mean_recall()) is None:
            missing[name] = "no search was answered"
        else:
            found[name] = value
    if len(lost.sent):
        found["lost_share"] = float(lost.failed.mean())
    seen = requests.done[requests.is_wrong & (requests.done >= 0.0) & (requests.sent < back_s)]
    if len(seen):
        found["noticed_s"] = float(seen.min())
    else:
        missing["noticed_s"] = "no request failed, and no answer was short"
    served = _recovery_s(lost, 0.0, back_s)
    if served is None:
        missing["served_s"] = "not before the node was back"
    else:
        found["served_s"] = served
    recovered = _recovery_s(after, back_s, end_s, found.get("recall_before"))
    if recovered is None:
        missing["recovered_s"] = "not before the end of the load"
    else:
        found["recovered_s"] = recovered - back_s
    return found, missing


def _recovery_s(
    requests: RequestLog, begin_s: float, end_s: float, recall: float | None = None
) -> float | None:
    """The second from which nothing is wrong until the end, and every second has this recall; None
    if even the last second falls short."""
    wrong = requests.sent[requests.is_wrong]
    last = float(wrong.max()) if len(wrong) else begin_s
    if recall is not None:
        for second in np.arange(begin_s, end_s, 1.0):
            mean = requests.sent_between(second, min(second + 1.0, end_s)).mean_recall()
            if mean is not None and mean < recall - NEAR:
                last = max(last, min(second + 1.0, end_s))
    return None if end_s - last < 1.0 else last


def seconds(
    requests: RequestLog, begin_s: float, end_s: float
) -> Sequence[tuple[float, RequestLog]]:
    """The requests of each second, with the middle of that second."""
    starts = np.arange(np.floor(begin_s), end_s, 1.0)
    return [(float(start) + 0.5, requests.sent_between(start, start + 1.0)) for start in starts]
