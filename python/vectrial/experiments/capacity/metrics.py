"""The metrics that only this experiment has."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName

METRICS = (
    MetricName("bracket_high", "1/s", None, "least rate above that did not hold", "Failed at"),
    MetricName(
        "confirmations", "1", None, "fresh phases at the answer, all of which held", "Confirmed by"
    ),
    MetricName(
        "steps_down", "1", "lower", "times it was lowered until it was confirmed", "Lowered"
    ),
    MetricName(
        "recall_parameter_value",
        "1",
        None,
        "value of the search parameter that trades speed for recall, as the recall asked for it",
        "Search parameter",
    ),
)

#: The experiment's own metrics by name.
OWN = {metric.name: metric for metric in METRICS}
