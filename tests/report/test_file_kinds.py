"""What the report says of bytes on disk by kind of file, from invented figures."""

from __future__ import annotations

import capacity_runs as made
import pytest
from report_tables import drawn, rows_of
from synthetic_runs import ROWS, SECOND

from vectrial.analysis.run_data import RunData
from vectrial.experiments.storage.report import KINDS
from vectrial.model.phase import Phase
from vectrial.report.build import build

CAME = {"disk_rows_bytes": 3e6, "disk_index_bytes": 2e6, "disk_log_bytes": -1e6}


def sizes(kinds: dict[str, float]) -> Phase:
    phase = Phase("settled", 0, SECOND, {"rows": ROWS})
    phase.metrics = {
        "raw_bytes": 2e6, "metadata_bytes": 0.0, "disk_bytes": 5e6, "disk_baseline_bytes": 1e6,
        "disk_ratio": 2.0, **kinds,
    }  # fmt: skip
    for metric in set(KINDS) - set(kinds):
        phase.missing[metric] = "none of its files hold this alone"
    return phase


@pytest.fixture
def run() -> RunData:
    trials = [
        made.trial(store, sizes(kinds), experiment=experiment)
        for store, kinds in (("weaviate", CAME), ("faiss", {}))
        for experiment in ("storage", "ingest")
    ]
    return made.run_of(trials)


def test_the_storage_section_has_kinds_and_the_ratio_to_the_raw_bytes(run: RunData) -> None:
    report = build(run)
    (row,) = rows_of(report, "storage-kinds")
    assert row["store"].text == "weaviate", "of faiss it is not told apart"
    assert row["disk_ratio"].value == 2.0
    assert {key: cell.value for key, cell in row.items() if key in KINDS} == CAME
    points = drawn(report, "storage-kinds")
    assert [(one["kind"], one["mb"]) for one in points] == [("rows", 3.0), ("vector index", 2.0)]
