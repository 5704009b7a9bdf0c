"""What the report says of lanes, given loads and the client, from invented figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import capacity_runs as made
import duckdb
import pytest
from report_tables import rows_of
from run_contents import RunContents
from synthetic_runs import SECOND, STORES, synthetic_run

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Report
from vectrial.document.render import export
from vectrial.model.errors import UserError
from vectrial.model.phase import Phase, Role
from vectrial.report.build import build
from vectrial.report.sections.load import loads
from vectrial.results.writer import TrialRecord

#: What each lane is given: QPS, p50 and p99 in µs, client CPU per request in µs.
LANES = {"native": (8000.0, 900.0, 2000.0, 12.0), "sdk": (2000.0, 3600.0, 9000.0, 400.0)}
BOUND = "client-bound: the client used 97% of its processor time, more than 80%"


def phase_of(lane: str, params: dict[str, Any], **more: float) -> Phase:
    qps, p50, p99, cpu_us = LANES[lane]
    phase = Phase("search", 0, SECOND, {"k": 10, **params}, role=Role.SEARCH)
    phase.metrics = {
        "count": qps, "errors": 0, "qps": qps, "latency_p50": p50, "latency_p99": p99,
        "latency_p99_9": 2 * p99, "recall_mean": 0.97, "cpu_us_per_op": cpu_us, **more,
    }  # fmt: skip
    return phase


def trials() -> list[tuple[str, str, dict[str, Any], Phase]]:
    """lane, experiment, point, phase"""
    ceiling = {"client_cpu_share": 0.096, "ceiling_qps": 70_000.0, "ceiling_share": 0.114}
    closed = {"loop": "closed", "clients": 8, "ef_search": 64}
    found = [
        ("native", "search", closed, phase_of("native", closed, **ceiling)),
        ("sdk", "search", closed, phase_of("sdk", closed, client_cpu_share=0.8)),
    ]
    for rate in (100, 5000):
        point = {"loop": "open", "arrivals": "poisson", "rate": rate, "ef_search": 64}
        phase = phase_of(
            "native", point, service_p50=800, service_p99=1700, schedule_lag_p50=20,
            schedule_lag_p99=90, in_flight_peak=40, in_flight_limit_hits=0, **ceiling,
        )  # fmt: skip
        if rate == 5000:
            phase.valid, phase.reason = False, BOUND
        found.append(("native", "search", point, phase))
    return found


@pytest.fixture(scope="module")
def report() -> Report:
    run = [
        made.trial("weaviate", phase, lane=lane, experiment=experiment, params=point)
        for lane, experiment, point, phase in trials()
    ]
    return build(made.run_of(run))


def test_both_lanes_stand_side_by_side_with_what_the_client_costs(report: Report) -> None:
    (row,) = rows_of(report, "client-tax")
    assert (row["native_qps"].value, row["sdk_qps"].value) == (8000, 2000)
    assert row["qps_ratio"].value == 0.25
    assert row["cpu_ratio"].value == pytest.approx(400 / 12)
    assert row["clients"].value == 8


def test_a_given_load_is_shown_with_lag_and_service_time(report: Report) -> None:
    rows = rows_of(report, "open-loop")
    assert [row["offered"].value for row in rows] == [100, 5000]
    assert rows[0]["service_p99"].value == 1700
    assert rows[0]["lag_p99"].value == 90
    assert rows[0]["at"].text == "m=16 ef_search=64", "the load is not the setting"
    assert BOUND in rows[1]["offered"].note
    assert [f.name for f in report.figures() if f.name.startswith("open-loop")]


def test_a_client_bound_row_is_named_as_such(report: Report) -> None:
    rows = {row["load"].text: row for row in rows_of(report, "client")}
    assert rows["8 clients"]["verdict"].text == "the store"
    assert rows["8 clients"]["share"].text == "11 %"
    bound = rows["5,000 QPS offered"]
    assert (bound["verdict"].text, bound["verdict"].note) == ("client-bound", BOUND)


def test_every_form_can_be_written(report: Report, tmp_path: Path) -> None:
    out = export.make_folder(tmp_path / "report")
    page = export.write_html(report, out).read_text()
    for heading in (
        "Fixed arrival rate (open loop)",
        "Cost of the Python client",
        "Was the client the bottleneck?",
    ):
        assert heading in page
    export.write_markdown(report, out)
    export.write_figures(report, out)


# -- reports say how long the load took that searches are of --------------------------------------


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
