"""The metrics that only this experiment has."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName(
        "duplicate_queries",
        "1",
        None,
        "exact copies of other queries, left out",
        "Duplicate queries",
    ),
    MetricName(
        "stored_queries", "1", None, "exact copies of stored rows, left out", "Stored queries"
    ),
    MetricName("anomalous_queries", "1", None, "queries that are anomalies", "Anomalous queries"),
    MetricName(
        "normal_queries", "1", None, "normal queries on which alarms are counted", "Normal queries"
    ),
    MetricName(
        "held_out_queries",
        "1",
        None,
        "normal queries that thresholds are chosen on",
        "Held out queries",
    ),
    MetricName(
        "auroc", "1", "higher", "chance that an anomaly is less alike than a normal query", "AUROC"
    ),
    MetricName("auroc_exact", "1", None, "the same for exact search", "Auroc exact"),
    MetricName(
        "threshold", "1", None, "cosine below which an anomaly is announced, as chosen", "Threshold"
    ),
    MetricName("threshold_exact", "1", None, "the same for exact search", "Threshold exact"),
    MetricName(
        "detection_rate", "1", "higher", "share of anomalies below that threshold", "Detection rate"
    ),
    MetricName(
        "detection_rate_exact",
        "1",
        None,
        "the same for exact search and its threshold",
        "Detection rate exact",
    ),
    MetricName(
        "false_alarm_rate",
        "1",
        "lower",
        "share of normal queries below that threshold",
        "False alarm rate",
    ),
    MetricName(
        "false_alarm_rate_exact",
        "1",
        None,
        "the same for exact search and its threshold",
        "False alarm rate exact",
    ),
    MetricName(
        "fixed_detection_rate",
        "1",
        "higher",
        "share of anomalies below the fixed threshold",
        "Fixed detection rate",
    ),
    MetricName(
        "fixed_false_alarm_rate",
        "1",
        "lower",
        "share of normal queries below it",
        "Fixed false alarm rate",
    ),
    MetricName(
        "client_cosine", "us", "lower", "the client's cosines of one query, mean", "Client cosine"
    ),
)

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}
