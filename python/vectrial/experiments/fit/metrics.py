"""The metrics that only this experiment has."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName(
        "empty_rss_bytes",
        "B",
        None,
        "resident memory of the server, or of the measuring process of a library, before rows are"
        " loaded",
        "Before rows",
    ),
)

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}
