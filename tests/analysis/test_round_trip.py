"""A run that is written and read again is the run that tests make in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from compared_runs import Made
from priced_runs import priced_run
from run_contents import SOME_DATASET, RunContents
from synthetic_runs import ENVIRONMENT, SECOND, STORES, synthetic_run

from vectrial._engine import Recorder
from vectrial.analysis.run_data import RunData, load
from vectrial.gate import CheckResult
from vectrial.model.phase import Phase, Role
from vectrial.model.results_schema import MetricName
from vectrial.model.trial import TrialRow
from vectrial.results.writer import TrialRecord

OWN = MetricName("angle_turned", "deg", None, "how far")


def telemetry() -> Iterable[dict[str, Any]]:
    """Samples of a cluster of two, of which one has a control group, and of the client."""
    for at_s, phase in ((0.5, None), (1.0, 0), (2.0, 0), (3.0, 1), (4.0, None)):
        common = {"at_s": at_s, "phase": phase, "rss_bytes": 1 << 20}
        yield {**common, "process": "node-1", "cpu_s": 2 * at_s}
        yield {**common, "process": "node-2", "cpu_s": 9 * at_s, "group_cpu_s": 3 * at_s}
        yield {**common, "process": "client", "cpu_s": at_s}


def everything() -> TrialRecord:
    """A trial that has all that a trial may have."""
    recorder = Recorder()
    recorder.start(0)
    for latency_us in range(1, 500):
        recorder.operation(0, 0, latency_us * 1000)
    hdr = recorder.histogram("latency")
    search = Phase("search", 3 * SECOND, 5 * SECOND, {"k": 10, "of": ["a", "ü"]}, role=Role.SEARCH)
    search.metrics = {"qps": 12.0, "count": 7, "recall_mean": None, OWN.name: 0.5}
    search.missing = {"recall_mean": "no truth", "latency_p99": "too few samples"}
    search.histograms = {"latency": hdr, "service": hdr}
    search.errors = [("b", 1, ["no answer"]), ("c", 5, []), ("a", 5, ["one", "two"])]
    turn = Phase("turn", 6 * SECOND, 6 * SECOND + 500, {"nested": {"deep": [1, None]}})
    turn.metrics, turn.valid, turn.reason = {"qps": None}, False, "client-bound"
    row = TrialRow(
        "one", "milvus", "native", "words", 1000, 8, "cosine", "search", "hnsw",
        {"m": 16, "nodes": 2}, {"k": 10, "filter": "x < 3"}, 2, 7, ["no delete", "normalises"],
        "milvus-environment",
    )  # fmt: skip
    return TrialRecord(
        row, "invalid", "gate failed", "2.6", datetime(2026, 11, 1, 12, tzinfo=UTC), 2 * SECOND,
        9.5, phases=[search, turn], telemetry=list(telemetry()),
        gate=[
            CheckResult("z", True, "", "rows are there", "everything", True),
            CheckResult("a", None, "not asked", "filters hold", "filtered searches", False),
        ],
        server={"provider": "local", "cores": [0, 1]}, notes=["a note", "another"], metrics=[OWN],
        load={"load_s": 1, "ready_s": 2.5},
    )  # fmt: skip


def whole() -> RunContents:
    lost = replace(everything().row, key="two", rows=10, environment_name=None)
    datasets = [{**SOME_DATASET, "facts": '{"duplicates": 12}'}, {**SOME_DATASET, "rows": 10}]
    trials = [everything(), TrialRecord(lost, "skipped", "not installed")]
    return RunContents(trials, datasets, ENVIRONMENT, 'name = "whole"\n', "whole")


CONTENTS = {
    "whole": whole,
    "synthetic": lambda: synthetic_run(stores={one: STORES[one] for one in ("broken", "usearch")}),
    "priced": priced_run,
    "compared": lambda: Made(environment={"cpu": {"logical": 2}}).sweep().contents(),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_written_and_read_is_what_is_made_in_memory(name: str, tmp_path: Path) -> None:
    contents = CONTENTS[name]()
    read = load(contents.write(tmp_path / "run"))
    made = contents.data(tmp_path / "run")
    when = {name: read.run[name] for name in ("started_at", "finished_at")}
    assert all(timedelta() <= datetime.now(UTC) - at < timedelta(hours=1) for at in when.values())
    assert {**made.run, **when} == read.run
    assert made.trials == read.trials
    assert replace(made, run=read.run) == read


def test_nothing_that_is_read_of_a_run_is_left_out_above() -> None:
    """Of every field that a run, a trial or a phase has, one is not what it is where it lacks."""
    run = whole().data()
    phases = [phase for _, phase in run.phases()]
    values = [value for phase in phases for value in phase.metrics.values()]
    lost = set()
    for every in ([run], run.trials, phases, values):
        for one in fields(every[0]):
            usual = one.default_factory() if one.default_factory is not MISSING else one.default
            told = [getattr(value, one.name) for value in every]
            if all(value in (usual, None, (), {}) for value in told):
                lost.add(f"{type(every[0]).__name__}.{one.name}")
    # Tests of notes and of turns write them.
    assert lost == {f"{RunData.__name__}.note", f"{RunData.__name__}.slices"}
