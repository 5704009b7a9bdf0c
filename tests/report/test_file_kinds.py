"""What the report says of bytes on disk by kind of file, from invented figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import ENVIRONMENT, ROWS, SECOND, dataset_facts

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Report
from vectrial.model.phase import Phase
from vectrial.report.build import build
from vectrial.report.sections.file_kinds import KINDS
from vectrial.reports.collect import Measured
from vectrial.reports.page_tables import further
from vectrial.results.writer import RunWriter, TrialRecord, TrialRow

CAME = {"disk_rows_bytes": 3e6, "disk_index_bytes": 2e6, "disk_log_bytes": -1e6}


def sizes(kinds: dict[str, float]) -> Phase:
    phase = Phase("settled", 0, SECOND, {"rows": ROWS})
    phase.metrics = {
        "raw_bytes": 2e6, "metadata_bytes": 0.0, "disk_bytes": 5e6, "disk_empty_bytes": 1e6,
        "disk_ratio": 2.0, **kinds,
    }  # fmt: skip
    for metric in set(KINDS) - set(kinds):
        phase.missing[metric] = "none of its files hold this alone"
    return phase


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run") as writer:
        writer.begin(suite_name="s", command="vectrial run s", version="0", environment=ENVIRONMENT)
        writer.dataset(dataset_facts("words"))
        for store, kinds in (("weaviate", CAME), ("faiss", {})):
            for experiment in ("storage", "ingest"):
                row = TrialRow(
                    f"{store} {experiment}", store, "sdk", "words", ROWS, 8, "l2", experiment,
                    "hnsw", {}, {"k": 10}, 1, 42,
                )  # fmt: skip
                writer.trial(TrialRecord(row, "ok", phases=[sizes(kinds)], duration_s=4.0))
        writer.finish()
    return tmp_path / "run"


def rows_of(report: Report, name: str) -> list[dict[str, Any]]:
    (table,) = [t for t in report.tables() if t.name.startswith(name)]
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row.cells, strict=True)) for row in table.rows]


def test_the_storage_section_has_kinds_and_the_ratio_to_the_raw_bytes(folder: Path) -> None:
    report = build(load(folder))
    (row,) = rows_of(report, "storage-kinds")
    assert row["store"].text == "weaviate", "of faiss it is not told apart"
    assert row["disk_ratio"].value == 2.0
    assert {key: cell.value for key, cell in row.items() if key in KINDS} == CAME
    (figure,) = [f for f in report.figures() if f.name.startswith("storage-kinds")]
    drawn = figure.spec(800, True)["data"]["values"]
    assert [(one["kind"], one["mb"]) for one in drawn] == [("rows", 3.0), ("vector index", 2.0)]


def test_so_has_a_reproduction(folder: Path) -> None:
    held = further({"own": Measured(load(folder), "words", ROWS)})
    (table,) = held["storage"]
    (row,) = table.rows  # type: ignore[union-attr]
    assert row.cells[0].text == "weaviate"
    assert row.cells[5].value == 2.0
    assert row.series is None
