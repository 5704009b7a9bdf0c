"""The metrics that only this experiment has."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName("elapsed_s", "s", None, "since the load began", "Elapsed"),
    MetricName(
        "share_found", "1", "higher", "rows found of acknowledged rows looked for", "Share found"
    ),
    MetricName(
        "searchable_after_s",
        "s",
        "lower",
        "last row acknowledged until as many rows are found as ever are, but one, to the look",
        "All found after the last row",
    ),
)

#: By name.
OWN = {metric.name: metric for metric in METRICS}
