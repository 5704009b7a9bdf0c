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
    MetricName(
        "client_bytes",
        "B",
        None,
        "anonymous memory of the measuring process of a library before rows, with the client of"
        " the load at its peak",
        "Of our client",
    ),
    MetricName(
        "bare_bytes",
        "B",
        None,
        "anonymous memory of a process that has imported the library and done nothing",
        "Library alone",
    ),
)

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}
