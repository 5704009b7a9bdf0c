"""Figures of a collection that changes."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName("live_rows", "1", None, "rows that were live", "Live rows"),
    MetricName("replaced_rows", "1", None, "rows replaced or deleted until then", "Replaced"),
    MetricName("step_rows_per_s", "1/s", "higher", "rows of a step per second", "Rows/s"),
    MetricName("bytes_per_row", "B", "lower", "bytes on disk over live rows", "Disk per row"),
)
