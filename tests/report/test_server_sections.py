"""What the report says of servers, from invented figures."""

from __future__ import annotations

from typing import Any

import capacity_runs as made
import pytest
from report_tables import cells_of
from synthetic_runs import SECOND

from vectrial.document.blocks import Report
from vectrial.model.phase import Phase
from vectrial.report.build import build
from vectrial.telemetry.phases import add_server_metrics, why_not_sampled

NOTE = "weaviate 2.0 is not a version that its driver was tested with: 1.35.*"
FACTS = {
    "provider": "local", "why": "its program can be had here", "program": "weaviate-server",
    "limits": "2 processors: not applied: no control group", "cores": [0, 1],
}  # fmt: skip


def samples() -> list[dict[str, Any]]:
    """A trial of four seconds; the phase is from 1.5 to 3.5 s, and keeps 1.5 processors busy."""
    rows = []
    for at_s, cpu_s, rss, peak, phase in (
        (0.0, 5.0, 100, 300, None),
        (1.0, 5.0, 100, 300, None),
        (2.0, 6.5, 180, 300, 0),
        (3.0, 8.0, 190, 420, 0),
        (3.5, 8.75, 150, 420, 0),
        (4.0, 8.75, 150, 420, None),
    ):
        common = {"phase": phase, "at_s": at_s, "threads": 7, "read_bytes": 0, "load_1m": 1.0}
        rows.append(
            {
                **common, "process": "server", "cpu_s": cpu_s, "rss_bytes": rss,
                "peak_rss_bytes": peak, "write_bytes": int(at_s * 1000), "disk_bytes": 4096,
                "voluntary_switches": int(at_s * 10), "involuntary_switches": 0,
            }
        )  # fmt: skip
        rows.append({**rows[-1], "process": "client", "cpu_s": 0.1, "disk_bytes": None})
    return rows


def searched() -> Phase:
    phase = Phase("search", 3 * SECOND // 2, 7 * SECOND // 2, {"clients": 4, "k": 10})
    phase.metrics = {"count": 1000.0, "qps": 500.0, "cpu_us_per_op": 12.0, "errors": 0}
    return phase


def test_a_phase_has_its_share_of_what_the_server_used() -> None:
    phase = searched()
    add_server_metrics([phase], samples(), 0)
    # Of the second from 1 to 2 the half after the phase began counts: 0.75 s.
    assert phase.metrics["server_cpu_s"] == pytest.approx(8.75 - 5.75)
    assert phase.metrics["server_cores"] == pytest.approx(1.5)
    assert phase.metrics["server_cpu_us_per_op"] == pytest.approx(3000)
    assert phase.metrics["server_peak_rss_bytes"] == 420, "the kernel saw more than the samples"
    assert phase.metrics["server_rss_bytes"] == 150
    assert phase.metrics["server_write_bytes"] == 2000
    assert phase.metrics["server_switches"] == 20
    assert phase.metrics["server_disk_bytes"] == 4096


def test_without_a_server_there_is_nothing_of_one() -> None:
    phase = searched()
    add_server_metrics([phase], [row for row in samples() if row["process"] == "client"], 0)
    assert not [name for name in phase.metrics if name.startswith("server")]


def test_a_rate_is_of_the_time_in_which_it_was_counted() -> None:
    clocked, instant = searched(), searched()
    clocked.ended_ns = clocked.started_ns + 1  # its clock stood still most of the time
    add_server_metrics([clocked], samples(), 0)
    assert clocked.metrics["server_cores"] == pytest.approx(1.5)
    instant.started_ns = instant.ended_ns - 1
    add_server_metrics([instant], samples(), 0)
    assert "server_cores" not in instant.metrics
    assert "shorter" in instant.missing["server_cores"]


def test_what_took_turns_has_no_cost_of_its_own() -> None:
    phases = [searched(), searched()]
    rows = samples()
    rows[-1]["phase"] = rows[-2]["phase"] = 1
    add_server_metrics(phases, rows, 0)
    for phase in phases:
        assert "server_cpu_us_per_op" not in phase.metrics
        assert "took turns" in phase.missing["server_cpu_us_per_op"]


@pytest.mark.parametrize(
    ("length_s", "paused_s", "told_s", "own"),
    [
        (2.0, 0.0, 2.01, True),
        (2.0, 0.0, 2.2, True),  # the sample that ends it takes a while
        (2.0, 0.0, 3.0, False),
        (100.0, 0.0, 104.0, True),
        (100.0, 0.0, 110.0, False),
        (2.0, 3.0, 5.1, True),  # its clock stood still for 3 s
        (0.01, 0.0, 240.0, False),
    ],
)
def test_what_is_told_long_after_its_end_is_not_known(
    length_s: float, paused_s: float, told_s: float, own: bool
) -> None:
    phase = Phase("flush", SECOND, SECOND + int(length_s * SECOND))
    phase.paused_ns = int(paused_s * SECOND)
    why = why_not_sampled(phase, SECOND + int(told_s * SECOND))
    assert (why is None) is own
    assert own or "after its end" in str(why)


def test_a_phase_whose_cost_is_not_known_says_why() -> None:
    phase = searched()
    phase.unsampled = "looks go on beside the load"
    add_server_metrics([phase], [row for row in samples() if row["phase"] is None], 0)
    assert not [name for name in phase.metrics if name.startswith("server")]
    assert phase.missing["server_cpu_s"] == "looks go on beside the load"


def test_a_control_group_knows_better() -> None:
    phase, rows = searched(), samples()
    for row in rows:
        row["group_cpu_s"] = row["at_s"]
    add_server_metrics([phase], rows, 0)
    assert phase.metrics["server_cpu_s"] == pytest.approx(2.0)


@pytest.fixture
def report() -> Report:
    phase, look = searched(), Phase("look", 0, SECOND)
    look.unsampled = "looks go on beside the load"
    add_server_metrics([phase, look], samples(), 0)
    trial = made.trial(
        "weaviate", phase, look, experiment="search", params={"k": 10, "clients": 4},
        server=FACTS,
    )  # fmt: skip
    trial.store_version, trial.telemetry, trial.notes = "2.0", samples(), [NOTE]
    return build(made.run_of([trial]))


def test_the_report_says_what_each_phase_cost_the_server(report: Report) -> None:
    table = {t.name: t for t in report.tables()}["server-cost"]
    (shown,) = cells_of(table)
    assert shown["server_cores"].value == pytest.approx(1.5)
    assert shown["server_peak"].value == 420
    assert shown["server_disk"].value == 4096
    assert shown["client_cpu_us"].value == 12.0
    assert table.notes == ("Left out: look (search): looks go on beside the load.",)


def test_the_report_says_how_servers_were_run_and_warns(report: Report) -> None:
    table = {t.name: t for t in report.tables()}["servers"]
    assert [cell.text for cell in table.rows[0].cells] == [
        "weaviate", "local", FACTS["why"], "weaviate-server", "0, 1", FACTS["limits"],
    ]  # fmt: skip
    assert f"{NOTE}." in report.warnings
    assert any("had no limits" in warning for warning in report.warnings)
