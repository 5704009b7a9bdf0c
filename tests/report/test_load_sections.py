"""What the report says of lanes, given loads and the client, from invented figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import capacity_runs as made
import pytest
from report_tables import rows_of
from synthetic_runs import SECOND

from vectrial.document.blocks import Report
from vectrial.document.render import export
from vectrial.model.phase import Phase, Role
from vectrial.report.build import build

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
    out = export.made(tmp_path / "report")
    page = export.write_html(report, out).read_text()
    for heading in (
        "Fixed arrival rate (open loop)",
        "Cost of the Python client",
        "Was the client the bottleneck?",
    ):
        assert heading in page
    export.write_markdown(report, out)
    export.write_figures(report, out)
