"""Figures of a series of outages."""

from __future__ import annotations

from math import comb

from vectrial.model.results_schema import MetricName

CONFIDENCE = 0.95
#: Steps of a bisection: its end is exact to 1e-15.
_HALVINGS = 50

METRICS = (
    MetricName("outages", "1", None, "outages that came while rows were written", "Outages"),
    MetricName(
        "broken_outages", "1", "lower", "of these, with a row that breaks the promise", "Broken"
    ),
    MetricName(
        "broken_rate_at_most",
        "1",
        "lower",
        "share of outages that break the promise: more is excluded at 95 %",
        "Excluded above",
    ),
    MetricName(
        "lost_rows", "1", "lower", "acknowledged and promised rows that were not there", "Lost"
    ),
    MetricName("old_rows", "1", "lower", "rows there as before a promised update", "Old"),
    MetricName("returned_rows", "1", "lower", "promised deletes whose rows were back", "Back"),
    MetricName(
        "torn_rows", "1", "lower", "rows with the vector of one version and the columns of another",
        "Torn",
    ),
    MetricName(
        "foreign_rows", "1", "lower", "rows with a vector that was never written", "Foreign"
    ),
    MetricName(
        "unpromised_rows", "1", None, "acknowledged changes that were undone, as they may be",
        "Undone, allowed",
    ),
    MetricName(
        "unacknowledged_rows", "1", None, "changes that were never acknowledged, and are there",
        "Unacknowledged",
    ),
    MetricName(
        "not_found_rows", "1", "lower",
        "rows that are read by id and not found by their own vector", "Not found",
    ),
    MetricName(
        "miscounts", "1", "lower", "outages after which the store's count was not that of its rows",
        "Miscounts",
    ),
    MetricName(
        "unanswered", "1", "lower", "outages after which the store could not be read", "Unreadable"
    ),
    MetricName("answer_s", "s", "lower", "from the outage to the first answer", "First answer"),
    MetricName(
        "whole_s", "s", "lower", "from the outage until all promised rows are there", "Whole"
    ),
)  # fmt: skip


def rate_at_most(broken: int, outages: int) -> float:
    """Upper bound of the share of outages that break the promise, at 95 % confidence.

    The upper end of the one-sided interval of Clopper and Pearson (1934); if none of n outages
    broke it, the bound is 1 - 0.05^(1/n), about 3/n.
    """
    if broken >= outages:
        return 1.0
    low, high = broken / outages, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        as_few = sum(
            comb(outages, few) * rate**few * (1 - rate) ** (outages - few)
            for few in range(broken + 1)
        )
        low, high = (rate, high) if as_few > 1 - CONFIDENCE else (low, rate)
    return high
