"""Runs of `capacity` with invented figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from run_contents import RunContents
from synthetic_runs import ENVIRONMENT, ROWS, SECOND, dataset_facts

from vectrial.analysis.run_data import RunData
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.phase import Phase, Role
from vectrial.model.trial import TrialRow
from vectrial.results.writer import TrialRecord

LIMITS = {"p99_ms": 20.0, "recall": 0.95, "error_share": 0.001}
#: A price sheet of a suite, with a source that a page must escape.
SHEET = """
[prices]
dated = 2026-11-01
source = "a <b>list</b>"
currency = "USD"
vcpu_hour = 0.04
gib_hour = 0.005
gib_month = 0.10
"""
#: Of the capacity trials here: index and search parameters.
EF = {"ef_search": 40}


def figures(qps: float, p99_us: float, recall: float = 0.96) -> dict[str, float | None]:
    return {
        "count": 1000.0, "errors": 0.0, "qps": qps, "latency_p50": p99_us / 3,
        "latency_p99": p99_us, "recall_mean": recall,
    }  # fmt: skip


def alone(qps: float) -> Phase:
    """The pass of one caller by which the recall was looked for."""
    params = {"loop": "closed", "clients": 1, "k": 10, **EF}
    return Phase("recall", 0, SECOND, params, figures(qps, 900.0), role=Role.STEP)


def look(number: int, rate: float, why: str = "", p99_us: float = 5_000.0) -> Phase:
    """A look at a rate, which held unless there is a reason."""
    told = {
        "step": number,
        "purpose": "narrow",
        "passed": not why,
        "client_bound": False,
        "why": why,
    }
    params = {"loop": "open", "arrivals": "poisson", "rate": rate, "k": 10, **EF, **told}
    return Phase("rate", 0, SECOND, params, figures(rate, p99_us), role=Role.STEP)


def sustains(rate: float, p99_us: float = 9_000.0) -> Phase:
    """An answer."""
    found = {"sustained_qps": rate, "bracket_low": rate, "bracket_high": rate * 1.05}
    told = {"confirmations": 3.0, "steps_down": 0.0, "recall_parameter_value": 40.0}
    metrics = {**figures(rate, p99_us), **found, **told}
    return Phase(
        "capacity",
        0,
        SECOND,
        {**LIMITS, "recall_parameter": "ef_search"},
        metrics,
        role=Role.CAPACITY,
    )


def at_least(rate: float) -> Phase:
    """What there is instead, where the client was the limit."""
    said = f"at least {rate:,.5g}/s: client-bound"
    phase = sustains(rate)
    phase.metrics |= {"sustained_qps": None, "bracket_high": None}
    phase.missing |= {"sustained_qps": said, "bracket_high": "every rate that was tried held"}
    phase.invalidate(said)
    return phase


def nothing(why: str) -> Phase:
    """What there is instead, where nothing was confirmed."""
    params = {**LIMITS, "recall_parameter": "ef_search"}
    phase = Phase(
        "capacity",
        0,
        SECOND,
        params,
        {"sustained_qps": None, "recall_mean": 0.96},
        role=Role.CAPACITY,
    )
    phase.missing["sustained_qps"] = why
    phase.invalidate(why)
    return phase


def trial(store: str, *phases: Phase, **about: Any) -> TrialRecord:
    """A trial of these phases. about: columns of the trial; `server` how that is run."""
    server = about.pop("server", None)
    row: dict[str, Any] = {
        "store": store, "lane": "embedded", "dataset": "words", "rows": ROWS, "dim": 100,
        "metric_space": "cosine", "experiment": "capacity", "index_kind": "hnsw",
        "index_params": {"m": 16}, "params": {"k": 10, "returns": "ids"}, "repeat": 1, "seed": 1,
        **about,
    }  # fmt: skip
    key = "-".join(map(str, (store, *about.values())))
    own = EXPERIMENTS[row["experiment"]].metrics
    return TrialRecord(
        TrialRow(key=key, **row), "ok", phases=list(phases), server=server, metrics=own
    )


def contents_of(trials: Sequence[TrialRecord], suite: str = "") -> RunContents:
    """A run of these trials."""
    cuts = dict.fromkeys((one.row.dataset, one.row.rows) for one in trials)
    datasets = [{**dataset_facts(dataset), "rows": rows} for dataset, rows in cuts]
    return RunContents(list(trials), datasets, ENVIRONMENT, suite)


def run_of(trials: Sequence[TrialRecord], suite: str = "") -> RunData:
    """The run of these trials, in memory."""
    return contents_of(trials, suite).data()
