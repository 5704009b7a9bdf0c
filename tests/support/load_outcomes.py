"""What tests ask of an outcome of the load engine."""

from __future__ import annotations

from vectrial.engine.types import LoadOutcome, LoadRecord


def only(outcome: LoadOutcome) -> LoadRecord:
    """The record of the one class, in which every request that was issued is accounted for."""
    (record,) = outcome["classes"]
    summary = record["recorder"].summary()
    recorded = (summary["count"] or 0) + (summary["errors"] or 0)
    assert record["issued"] == recorded + record["in_flight"]
    return record


def errors(record: LoadRecord) -> dict[str, int]:
    """How many failed, by class."""
    return {kind: count for kind, count, _ in record["recorder"].errors()}
