"""The metrics that only this experiment has."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName("since_fault_s", "s", None, "since the node was lost", "Since the loss"),
    MetricName("short_answers", "1", "lower", "answers with fewer than k rows", "Short answers"),
    MetricName(
        "noticed_s", "s", None, "node lost until the first request failed or answer was short",
        "First seen",
    ),
    MetricName(
        "served_s", "s", "lower",
        "node lost until no request fails and no answer is short any more, before it is back",
        "Served again",
    ),
    MetricName(
        "recovered_s", "s", "lower",
        "node back until no request fails, no answer is short and recall is what it was",
        "Recovered",
    ),
    MetricName(
        "agreed_s", "s", "lower",
        "node back until every node has every acknowledged write and they agree on the count",
        "Nodes agree",
    ),
    MetricName("recall_before", "1", "higher", "recall before the node was lost", "Before"),
    MetricName("recall_lost", "1", "higher", "recall while the node was lost", "While lost"),
    MetricName("recall_after", "1", "higher", "recall after the node was back", "After"),
    MetricName(
        "missing_rows", "1", "lower",
        "acknowledged rows that a node does not have at the end; the most of any node",
        "Writes lost",
    ),
    MetricName(
        "returned_rows", "1", "lower",
        "rows whose delete was acknowledged and that a node has at the end; the most of any node",
        "Deletes undone",
    ),
    MetricName(
        "count_spread", "1", "lower", "difference of the nodes' counts of rows at the end",
        "Counts apart",
    ),
    MetricName(
        "lost_share", "1", "lower", "share of requests that failed while the node was lost",
        "Failed while lost",
    ),
)  # fmt: skip

#: By name.
OWN = {metric.name: metric for metric in METRICS}
