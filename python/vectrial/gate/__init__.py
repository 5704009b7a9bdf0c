"""The gate: correct before fast.

Every store passes it after each load, before a search is timed. Reading checks run on the loaded
store. Checks that change rows, and those that need data made to tell one fault from another, run
on a small store of the same kind beside it, since an index that was updated and deleted from is
no longer the one that was asked for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vectrial.gate import reading
from vectrial.gate.checks import Scope
from vectrial.gate.model import GateResult, GateRow, Report, Rows, Subject
from vectrial.gate.scratch import changing

__all__ = ["GateResult", "GateRow", "Rows", "Scope", "Subject", "run_gate"]


def run_gate(subject: Subject, scratch: Path) -> list[GateResult]:
    """Every check; `scratch` is an absent folder, removed afterwards.

    A check that does not apply to the store has `passed` None and says why; one that raises has
    failed, with what was raised. What each demands and invalidates is in `gate.checks`.
    """
    report = Report()
    rng = np.random.default_rng(subject.seed)
    with report.check("row_count"):
        reading.row_count(subject, report)
    with report.check("ids_round_trip"):
        reading.round_trip(subject, report, rng)
    with report.check(*reading.ANSWER_CHECKS):
        reading.answers(subject, report)
    changing(subject, scratch, report, rng)
    return report.results
