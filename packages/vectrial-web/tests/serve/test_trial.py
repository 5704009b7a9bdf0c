"""The document of one trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthetic_runs import ENVIRONMENT, SECOND, dataset_facts

from vectrial.document.blocks import Figure
from vectrial.model.phase import Phase
from vectrial.model.trial import TrialRow
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial_web.serve.trial import trial_report


def lasting(name: str, seconds: int, operations: tuple[str, ...] = (), **params: Any) -> Phase:
    """A phase with so many seconds of each operation."""
    phase = Phase(name, 0, seconds * SECOND, params, {"qps": 10.0})
    columns = {
        "second": list(range(seconds)), "recall": [1.0] * seconds,
        "count": [300] * seconds,
        **{key: [10] * seconds for key in ("p50_us", "p99_us", "max_us")},
        "errors": [0] * seconds,
    }  # fmt: skip
    phase.windows = dict.fromkeys(operations or (name,), columns)
    return phase


def latency(folder: Path, *phases: Phase) -> Figure:
    """The chart of latency of a trial of these phases."""
    row = TrialRow(
        key="one", store="faiss", lane="embedded", dataset="words", rows=10, dim=2,
        metric_space="l2", experiment="capacity", index_kind="hnsw", index_params={}, params={},
        repeat=1, seed=1,
    )  # fmt: skip
    with RunWriter(folder) as writer:
        writer.begin(suite_name="s", command="vectrial run s", version="0", environment=ENVIRONMENT)
        writer.dataset(dataset_facts("words"))
        writer.trial(TrialRecord(row, "ok", phases=list(phases)))
        writer.finish()
    found = trial_report(folder, 1)
    assert found is not None
    (figure,) = [one for one in found[0].figures() if one.name == "trial-latency"]
    return figure


def test_of_several_phases_the_longest_is_drawn_and_named(tmp_path: Path) -> None:
    phases = lasting("recall", 2), lasting("rate", 4, rate=900), lasting("confirm", 9, rate=850.0)
    figure = latency(tmp_path / "r", *phases)
    assert figure.title == "Latency, second by second: confirm at 850/s"
    assert "Of this trial's phases it is the longest" in figure.caption
    assert json.dumps(figure.spec(600, True)).count('"what": "p99"') == 9, "a point a second"


def test_of_equally_long_ones_it_is_the_first(tmp_path: Path) -> None:
    figure = latency(tmp_path / "r", lasting("mixed", 3, ("search", "insert")))
    assert figure.title == "Latency, second by second: mixed, insert"
    alone = latency(tmp_path / "s", lasting("search", 3))
    assert alone.title == "Latency, second by second: search"
    assert "longest" not in alone.caption
