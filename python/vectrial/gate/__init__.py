"""The gate: correctness checks before any timing.

Every store passes it after each load, before a search is timed. Reading checks run on the loaded
store. Checks that change rows, and those that need data made to tell one fault from another, run
on a separate small store of the same kind, since updates and deletes would change the index under
test.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vectrial.gate import contents, filtering, reading, scratch
from vectrial.gate.conditions import conditions
from vectrial.gate.model import ExpectedRows, GateResult, GateResults, Subject
from vectrial.model.refusals import indistinct_values
from vectrial.model.trial import CheckResult, Scope

__all__ = [
    "CheckResult", "ExpectedRows", "GateResult", "Scope", "Subject", "check_loaded_rows",
    "run_gate",
]  # fmt: skip

#: Checks that need the small store.
_BESIDE = (
    "metric_is_asked",
    "recall_floor",
    *filtering.SEARCH_CHECKS,
    filtering.FIND_CHECK,
    "updated_rows_found",
    "deleted_rows_gone",
)


def run_gate(subject: Subject, folder: Path) -> list[GateResult]:
    """Run every check. `folder` must not exist; it is removed afterwards.

    If a check does not apply to the store, `passed` is None and the reason is given. If it raises,
    `raised` holds the error: the trials that depend on it fail, without blame for the store.
    `gate.checks` defines what each check demands and invalidates.
    """
    report = GateResults()
    rng = np.random.default_rng(subject.seed)
    _check_rows(subject, report, rng)
    if subject.read_only:
        _check_filters_read_only(subject, report, rng)
        return report.results
    with report.check(*_BESIDE), scratch.small_store(subject, folder) as small:
        with report.check("metric_is_asked", "recall_floor"):
            scratch.check_metric_and_floor(small, report)
        _check_filters([_loaded_store_probe(subject, rng), _small_store_probe(small)], report)
        with report.check("updated_rows_found"):
            scratch.check_updates(small, report, rng)
        with report.check("deleted_rows_gone"):
            scratch.check_deletes(small, report)
    return report.results


def check_loaded_rows(subject: Subject) -> list[GateResult]:
    """Run the checks that read the loaded rows, including filtered searches and finds, but none
    that needs a second store."""
    report, rng = GateResults(), np.random.default_rng(subject.seed)
    _check_rows(subject, report, rng)
    _check_filters([_loaded_store_probe(subject, rng)], report)
    return report.results


def _check_rows(subject: Subject, report: GateResults, rng: np.random.Generator) -> None:
    with report.check("row_count"):
        reading.check_row_count(subject, report)
    with report.check("ids_round_trip"):
        reading.check_round_trip(subject, report, rng)
    if subject.at_node:
        with report.check("nodes_agree"):
            reading.check_nodes_agree(subject, report, rng)
    if subject.capabilities.existing is not None and not subject.read_only:
        with report.check("index_is_asked"):
            reading.check_index(subject, report)
    true_share = 0.0
    with report.check(*reading.ANSWER_CHECKS):
        true_share = reading.check_answers(subject, report)
    with report.check("all_rows_kept"):
        contents.check_all_rows(subject, report)
    with report.check("rows_found_by_search"):
        contents.check_searchable(subject, report, true_share)


def _check_filters(probes: Sequence[filtering.FilterProbe], report: GateResults) -> None:
    with report.check(*filtering.SEARCH_CHECKS):
        filtering.check_searches(probes, report)
    with report.check(filtering.FIND_CHECK):
        filtering.check_finds(probes, report)


def _check_filters_read_only(
    subject: Subject, report: GateResults, rng: np.random.Generator
) -> None:
    """Check filters on a collection that somebody else made. Checks that need another collection in
    its server are left out, with the reason."""
    _check_filters([_loaded_store_probe(subject, rng)], report)
    known = {result.name for result in report.results}
    for name in _BESIDE:
        if name not in known:
            why = "not checked: it changes rows or needs a collection beside, and this one is read"
            report(name, None, why)


def _small_store_probe(small: Subject) -> filtering.FilterProbe:
    wheres = scratch.probe_filters(small)
    return filtering.FilterProbe(small, wheres, "on clustered rows", small.filtered_floor)


def _loaded_store_probe(subject: Subject, rng: np.random.Generator) -> filtering.FilterProbe:
    """Filters on the loaded store, made from the dataset's own values."""
    wheres = []
    if subject.rows.metadata is not None:
        can = subject.capabilities
        fields = [field for field in subject.schema.fields if not indistinct_values(can, field)]
        wheres = conditions(subject.rows.metadata, fields, can.filters | can.find, rng)
    floor = subject.adjust_floor(subject.filtered_floor)
    return filtering.FilterProbe(subject, wheres, "on the loaded rows", floor)
