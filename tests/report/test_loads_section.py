"""Reports say how long the load took that searches are of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from run_contents import RunContents
from synthetic_runs import STORES, synthetic_run

from vectrial.analysis.run_data import load
from vectrial.model.errors import UserError
from vectrial.report.build import build
from vectrial.report.sections.load import loads
from vectrial.results.writer import TrialRecord

TIMES = {"load_s": 4.0, "flush_s": 0.5, "build_s": 3.0, "wait_s": 2.5, "ready_s": 10.0}


@pytest.fixture
def run() -> RunContents:
    stores = {name: STORES[name] for name in ("faiss", "hnswlib")}
    return synthetic_run(stores=stores, efs=(64,), only_sweep=True, builds=((16, 128),))


def record(trials: Sequence[TrialRecord]) -> None:
    """Give the trials of each repeat the times of a load."""
    for one in trials:
        one.load = {name: value * (1 + one.row.repeat / 100) for name, value in TIMES.items()}


def test_the_times_of_every_load_stand_beside_the_searches(run: RunContents) -> None:
    record(run.of(store="hnswlib"))
    section = loads(run.data())
    assert section is not None
    (table,) = section.blocks
    rows = {row.cells[0].text: row.cells for row in table.rows}
    assert [column.title for column in table.columns[1:6]] == [
        "acknowledged", "flush", "build", "wait", "ready to search",
    ]  # fmt: skip
    known = rows["hnswlib"]
    assert [cell.value for cell in known[1:6]] == pytest.approx([v * 1.01 for v in TIMES.values()])
    assert known[5].text == "10.1 s"
    assert known[5].detail == "10.0–10.2 s"
    assert known[6].value == 3
    assert "m=16" in known[7].text
    assert "not recorded" in rows["faiss"][1].note
    assert "Loads behind the searches" in [one.title for one in build(run.data()).sections]


def test_at_a_glance_has_them_where_no_experiment_measured_a_load(run: RunContents) -> None:
    def ready() -> dict[str, tuple[float | None, float | None]]:
        glance = next(one for one in build(run.data()).sections if one.name == "glance")
        (table,) = glance.blocks
        at = [column.key for column in table.columns].index("ready_rows_per_s")
        return {
            row.cells[0].text: (row.cells[at].value, row.cells[at + 1].value) for row in table.rows
        }

    assert ready() == {"faiss": (None, None), "hnswlib": (None, None)}
    record(run.trials)
    assert ready()["faiss"] == pytest.approx((50_000 / 10.1, 10.1))


def test_runs_of_earlier_versions_have_no_such_section(run: RunContents, tmp_path: Path) -> None:
    assert loads(run.data()) is None
    folder = run.write(tmp_path / "run")
    with duckdb.connect(str(folder / "run.duckdb")) as db:
        db.execute("alter table trial drop column load")
    assert loads(load(folder)) is None


def test_times_that_are_none_are_refused(run: RunContents, tmp_path: Path) -> None:
    run.trials[0].load = {"load_s": "long"}  # type: ignore[dict-item]
    folder = run.write(tmp_path / "run")
    with pytest.raises(UserError, match="the times of a load are numbers"):
        load(folder)
