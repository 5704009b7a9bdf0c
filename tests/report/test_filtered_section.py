"""What the report says of searches under filters, from invented figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import capacity_runs as made
import pytest
from report_tables import rows_of
from synthetic_runs import SECOND

from vectrial.document.blocks import Report
from vectrial.document.render import export
from vectrial.model.phase import Phase
from vectrial.report.build import build

SHARES = (0.001, 0.1, 0.9)


def phase_of(
    arm: str, predicate: str, share: float, qps: float, correlation: float | None, **about: Any
) -> Phase:
    params = {"k": 10, "clients": 1, "returns": "ids", "ef_search": 64}
    told = {"payload_index": arm, "predicate": predicate, "selectivity": share}
    phase = Phase("search", 0, SECOND, {**params, **told, **about})
    phase.metrics = {
        "count": qps, "errors": 0, "qps": qps, "latency_p50": 900.0, "latency_p99": 2000.0,
        "recall_mean": 0.97, "selectivity": share, "filter_correlation": correlation,
        "violations": 0, "incomplete_results": 0,
    }  # fmt: skip
    if correlation is None:
        phase.missing["filter_correlation"] = "no filter"
    return phase


def arm_phases(arm: str, factor: float) -> list[Phase]:
    phases = [phase_of(arm, "none", 1.0, 1000.0, None)]
    for predicate, near in (("independent", 0.0), ("aligned", 0.8), ("opposed", -0.7)):
        phases += [phase_of(arm, predicate, s, factor * 500.0, near) for s in SHARES]
    phases.append(phase_of(arm, "nested", 0.1, factor * 300.0, 0.0, depth=8))
    return phases


def written(arms: Mapping[str, list[Phase]]) -> Report:
    """The report of a run of these arms."""
    trials = [
        made.trial("milvus", *phases, experiment="filtered", params={"k": 10, "payload_index": arm})
        for arm, phases in arms.items()
    ]
    return build(made.run_of(trials))


@pytest.fixture(scope="module")
def report() -> Report:
    arms = {"on": arm_phases("on", 1.0), "off": arm_phases("off", 0.5)}
    bad = arms["off"][-1]
    bad.valid, bad.reason = False, "3 of 200 answers looked at have rows"
    bad.metrics["violations"] = 3
    return written(arms)


def test_where_every_search_failed_there_is_a_table_all_the_same(tmp_path: Path) -> None:
    phases = arm_phases("on", 1.0)
    for phase in phases:
        phase.invalidate("all 100 operations failed")
        for name in ("recall_mean", "qps", "latency_p50", "latency_p99"):
            phase.metrics[name], phase.missing[name] = None, "no operation succeeded"
    report = written({"on": phases})
    assert len(rows_of(report, "filtered")) == len(phases)
    assert not [f for f in report.figures() if f.name.startswith("filtered")]
    out = export.make_folder(tmp_path / "report")
    assert "Searching under filters" in export.write_html(report, out).read_text()


def test_a_line_is_of_one_number_of_filters_and_of_what_has_none() -> None:
    phases = arm_phases("on", 1.0)
    for phase in phases:
        if phase.params["predicate"] in ("independent", "aligned", "opposed"):
            phase.params = {**phase.params, "pivots": 8}
    report = written({"on": phases})
    assert {row["setting"].text for row in rows_of(report, "filtered")} == {"ef_search=64"}
    for figure in report.figures():
        if figure.name.startswith("filtered-"):
            (drawn,) = figure.spec(800, True)["datasets"].values()
            assert {row["share"] for row in drawn} == {*SHARES, 1.0}, figure.name
            assert len({row["line"] for row in drawn}) == 1


def test_every_arm_and_predicate_has_its_row(report: Report) -> None:
    rows = rows_of(report, "filtered")
    assert len(rows) == 2 * (1 + 3 * len(SHARES) + 1)
    (near,) = [
        row
        for row in rows
        if (row["predicate"].text, row["payload_index"].text) == ("aligned", "off")
        and row["selectivity"].value == 0.001
    ]
    assert near["qps"].value == 250
    assert near["filter_correlation"].value == 0.8
    assert rows[0]["filter_correlation"].note == "no filter"
    assert rows[0]["setting"].text == "ef_search=64"


def test_violations_stand_out_with_the_reason(report: Report) -> None:
    wrong = [row for row in rows_of(report, "filtered") if row["violations"].value == 3]
    (row,) = wrong
    assert row["violations"].tone == "wrong"
    assert row["depth"].value == 8
    (table,) = [t for t in report.tables() if t.name.startswith("filtered")]
    notes = [cell.note for row in table.rows for cell in row.cells]
    assert sum("answers looked at" in note for note in notes) == 1


def test_recall_and_speed_are_drawn_for_every_predicate_with_both_arms(report: Report) -> None:
    drawn = {f.name: f for f in report.figures() if f.name.startswith("filtered-")}
    assert len(drawn) == 3 * 2
    for name, figure in drawn.items():
        (values,) = figure.spec(800, True)["datasets"].values()
        assert len(values) == 2 * (len(SHARES) + 1), name
        assert {row["hollow"] for row in values} == {True, False}
        assert {row["share"] for row in values} == {*SHARES, 1.0}


@pytest.mark.slow
def test_every_form_can_be_written(report: Report, tmp_path: Path) -> None:
    out = export.make_folder(tmp_path / "report")
    assert "Searching under filters" in export.write_html(report, out).read_text()
    export.write_markdown(report, out)
    export.write_figures(report, out)


def test_a_line_ends_in_the_search_without_a_filter_on_its_own_load() -> None:
    apart = made.trial(
        "milvus", phase_of("on", "none", 1.0, 695.0, None), experiment="filtered",
        params={"k": 10, "clients": 1, "selectivity": 1.0},
    )  # fmt: skip
    together = made.trial(
        "milvus", *arm_phases("on", 1.0), experiment="filtered",
        params={"k": 10, "payload_index": "on"},
    )  # fmt: skip
    report = build(made.run_of([apart, together]))
    (figure,) = [f for f in report.figures() if f.name.startswith("filtered-independent-qps")]
    (drawn,) = figure.spec(800, True)["datasets"].values()
    assert [row["value"] for row in drawn if row["share"] == 1.0] == [1000.0]
