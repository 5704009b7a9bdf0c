"""The rule for how many samples a quantile needs, for every figure that is a quantile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vectrial.model.phase import Phase

#: Least confidence with which a quantile must lie between its smallest and its largest sample.
CONFIDENCE = 0.95


def samples_needed(quantile: float) -> int:
    """The fewest samples for which an order-statistic interval of a quantile exists.

    Whatever the distribution, the largest of n independent samples reaches its quantile q with
    probability 1 - qⁿ, and the smallest does not exceed it with probability 1 - (1 - q)ⁿ. Both are
    at least `CONFIDENCE` c from n = ⌈ln(1 - c) / ln(max(q, 1 - q))⌉ on (Wilks 1941; David &
    Nagaraja 2003, section 7.1): 5 for p50, 29 for p90, 59 for p95, 299 for p99, 2,995 for p99.9.

    Raises:
        ValueError: the quantile is not between 0 and 1, both excluded.
    """
    if not 0 < quantile < 1:
        raise ValueError("a quantile lies between 0 and 1, both excluded")
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(max(quantile, 1 - quantile)))


def arrivals_needed(quantile: float) -> int:
    """Arrivals to offer so that enough are answered to support a quantile: Poisson arrivals are
    seldom fewer than four standard deviations below their mean."""
    needed = samples_needed(quantile)
    return needed + math.ceil(4 * math.sqrt(needed))


@dataclass(frozen=True)
class Quantile:
    """A metric that is a quantile of samples.

    at: between 0 and 1. label: as a person writes it. counts: metrics of the same phase that count
        samples; the number of samples is the least of those present.
    """

    at: float
    label: str
    counts: tuple[str, ...]

    @property
    def least_samples(self) -> int:
        """The fewest samples that support the quantile."""
        return samples_needed(self.at)

    def why_unsupported(self, samples: float) -> str | None:
        """Reason why so many samples do not support the quantile; None if they do."""
        if samples >= self.least_samples:
            return None
        requests = "request" if samples == 1 else "requests"
        return f"{samples:,.0f} {requests}; {self.label} needs {self.least_samples:,}"


_NAMES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
#: The counts of samples for each sampled quantity. In a load, latencies are those of batches.
_COUNTS = {
    "latency": ("count", "batches"),
    "service": ("count",),
    "schedule_lag": ("count",),
    "first_pass": ("first_pass_count",),
    "later_pass": ("later_pass_count",),
    "cold": ("cold_count",),
}
#: Every metric that is a quantile, by name.
QUANTILES: Mapping[str, Quantile] = {
    f"{sampled}_{name}": Quantile(at, name.replace("_", "."), counts)
    for sampled, counts in _COUNTS.items()
    for name, at in _NAMES.items()
}
#: Quantiles of latency, as numbers.
LATENCY: Mapping[str, float] = {f"latency_{name}": at for name, at in _NAMES.items()}


def unsupported_quantiles(figures: Mapping[str, float | None]) -> dict[str, str]:
    """Reasons why quantiles among the figures of a phase say nothing, by metric. A quantile with an
    unknown number of samples is not faulted."""
    reasons = {}
    for name in QUANTILES.keys() & figures.keys():
        counts = [figures.get(count) for count in QUANTILES[name].counts]
        samples = [count for count in counts if count is not None]
        why = QUANTILES[name].why_unsupported(min(samples)) if samples else None
        if why and figures[name] is not None:
            reasons[name] = why
    return reasons


def highest_percentile(
    figures: Mapping[str, float | None], quantile: float
) -> tuple[str, float] | None:
    """The highest known percentile of latency up to `quantile`, as its label and microseconds: a
    bound that it exceeds, higher percentiles exceed too. None if none is known."""
    for name, at in sorted(LATENCY.items(), key=lambda one: -one[1]):
        us = figures.get(name)
        if at <= quantile and us is not None:
            return QUANTILES[name].label, us
    return None


def withhold_quantiles(phase: Phase) -> None:
    """Replace quantiles of a phase that have too few samples by the reason."""
    reasons = unsupported_quantiles(phase.metrics)
    phase.metrics |= dict.fromkeys(reasons)
    phase.missing |= reasons
