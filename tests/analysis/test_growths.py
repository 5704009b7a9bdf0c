"""What a run of several sizes says of more rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import capacity_runs as made
import growth_runs
import pytest
from command_calls import call
from growth_runs import CLIENTS, SIZES, grown
from report_tables import rows_of
from synthetic_runs import SECOND

from vectrial.analysis.deployment import Demand, NodeSize, sizings
from vectrial.analysis.growth_curves import Curve, curves
from vectrial.analysis.growths import holdout_checks, outlooks
from vectrial.analysis.run_data import RunData
from vectrial.model.phase import Phase, Role
from vectrial.report.build import build
from vectrial.stats.growth import Law
from vectrial.suite.model import Prices

MILLION = SIZES[-1]


@pytest.fixture(scope="module")
def run() -> RunData:
    return grown().data()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grown().write(tmp_path_factory.mktemp("grown") / "run")


@pytest.fixture(scope="module")
def found(run: RunData) -> list[Curve]:
    return curves(run)


def test_every_quantity_of_each_store_is_a_curve_over_the_sizes(found: list[Curve]) -> None:
    said = [(c.build.series.store, c.quantity.metric, c.quantity.clients) for c in found]
    of_searches = [(m, n) for n in (1, 8) for m in ("qps", "latency_p99")]
    recalls = [("recall_mean", CLIENTS[0])] * 2  # one at each setting
    stored = [("ready_s", None), ("rss_growth_bytes", None), ("disk_bytes", None)]
    each = [*stored, *of_searches, *recalls]
    assert sorted(said, key=str) == sorted(
        ((store, *one) for store in ("faiss", "hnswlib") for one in each), key=str
    )
    assert all(curve.sizes == SIZES for curve in found)


def test_searches_are_read_off_at_the_recall(found: list[Curve]) -> None:
    own = [curve for curve in found if curve.build.series.store == "faiss"]
    (qps,) = (c for c in own if c.quantity.metric == "qps" and c.quantity.clients == 8)
    expected = [1e6 * 8 / growth_runs.query_us(rows, 8) for rows in SIZES]
    assert qps.values == pytest.approx(expected)
    assert len(qps.points[0]) == 2, "it lies between two measured points"


def test_the_held_out_million_is_forecast_from_what_is_below(found: list[Curve]) -> None:
    checked = holdout_checks(found, MILLION)
    assert len(checked) == len(found)
    for outlook in checked:
        assert outlook.curve.sizes == SIZES[:-1]
        assert outlook.is_in_interval, outlook
        assert outlook.forecast.value == pytest.approx(outlook.measured, rel=0.02)


def test_laws_that_structure_suggests_are_the_ones_found(found: list[Curve]) -> None:
    laws = {o.curve.quantity.metric: o.law for o in outlooks(found, 1e7)}
    assert laws["rss_growth_bytes"] is Law.LINEAR
    assert laws["qps"] is Law.LOG


def test_a_size_where_the_recall_was_not_reached_has_no_speed() -> None:
    run = grown(stores=("faiss",)).data()
    metrics = {c.quantity.metric: c for c in curves(run, recall=0.99)}
    assert set(metrics) == {"ready_s", "rss_growth_bytes", "disk_bytes", "recall_mean"}


def test_too_few_sizes_give_no_forecast() -> None:
    run = grown(stores=("faiss",), sizes=SIZES[:3]).data()
    assert outlooks(curves(run), 1e6) == []
    assert not [table for table in build(run).tables() if table.name.startswith("forecast")]


# -- nodes ---------------------------------------------------------------------------------------


def test_a_deployment_is_what_one_computes_by_hand(run: RunData, found: list[Curve]) -> None:
    demand = Demand(rows=4e6, qps=100_000, p99_us=1e6)
    node = NodeSize(processors=2, memory_bytes=1.6e9)
    made_of = sizings(found, demand, lambda build: node, made_prices())
    expected = next(one.expected for one in made_of if one.build.series.store == "faiss")
    assert expected is not None
    # 50 MB + 700 B a row fit 2.2 M rows into 1.6 GB, so that two shards hold 4 M.
    assert expected.shards == 2
    qps = 1e6 * 8 / growth_runs.query_us(2_000_000, 8)
    assert expected.qps == pytest.approx(qps, rel=0.02)
    assert expected.replicas == -(-demand.qps // expected.qps)
    gib = node.memory_bytes / 2**30
    disk = expected.disk_bytes or 0
    each = 730 * (2 * 0.04 + gib * 0.005) + disk / 2**30 * 0.1
    assert expected.per_month == pytest.approx(expected.nodes * each)


def test_the_worse_ends_take_no_fewer_nodes(found: list[Curve]) -> None:
    demand = Demand(rows=1e8, qps=20_000, p99_us=1e6)
    for one in sizings(found, demand, lambda build: NodeSize(2, 8e9), None):
        assert one.expected is not None
        assert one.cautious is not None
        assert one.cautious.nodes >= one.expected.nodes
        assert one.cautious.per_month is None


def test_a_limit_that_no_size_keeps_is_said(found: list[Curve]) -> None:
    demand = Demand(rows=1e6, qps=10, p99_us=1.0)
    for one in sizings(found, demand, lambda build: NodeSize(2, 8e9), None):
        assert one.expected is None
        assert one.reason == ("p99 is above the limit even with the fewest rows that were measured")
    nowhere = sizings(found, demand, lambda build: None, None)
    assert {one.reason for one in nowhere} == {"its server's machine is not known"}


def test_a_library_takes_no_nodes() -> None:
    found = curves(grown(lane="embedded").data())
    made_of = sizings(found, Demand(1e8, 20_000, 1e6), lambda build: NodeSize(2, 8e9), None)
    assert {(one.expected, one.cautious) for one in made_of} == {(None, None)}
    assert {one.reason for one in made_of} == {"a library runs in one process"}


def test_bytes_that_grow_exactly_are_known_exactly() -> None:
    contents = grown(stores=("faiss",))
    for record in contents.of("storage"):
        record.phases[0].metrics["raw_bytes"] = 512.0 * record.row.rows
    found = curves(contents.data())
    (disk,) = [c for c in found if c.quantity.metric == "disk_bytes"]
    assert disk.least_bytes_per_row == 512.0
    compressed = replace(disk, values=tuple(value / 2 for value in disk.values))
    assert compressed.least_bytes_per_row == 0.0
    (outlook,) = [o for o in outlooks(found, 1e8) if o.curve is disk]
    forecast = outlook.forecast
    assert forecast.value == pytest.approx(growth_runs.disk_bytes(100_000_000), rel=1e-3)
    assert 0.98 < forecast.low / forecast.value < 1 < forecast.high / forecast.value < 1.02


def test_no_interval_reaches_below_the_bytes_of_the_vectors() -> None:
    contents = grown(stores=("faiss",))
    for record in contents.of("storage"):
        metrics, rows = record.phases[0].metrics, record.row.rows
        metrics["raw_bytes"] = 590.0 * rows
        metrics["disk_bytes"] = growth_runs.disk_bytes(rows) * (1.1 if rows == 50_000 else 1)
    found = curves(contents.data())
    (outlook,) = [o for o in outlooks(found, 1e8) if o.curve.quantity.metric == "disk_bytes"]
    assert outlook.forecast.low == 590.0 * 1e8 < outlook.forecast.value < outlook.forecast.high


def test_nothing_is_forecast_below_the_smallest_size(folder: Path, found: list[Curve]) -> None:
    assert outlooks(found, SIZES[0] - 1) == []
    assert len(outlooks(found, SIZES[0] + 1)) == len(found), "between sizes it is interpolated"
    done = call("forecast", folder, "--rows", "1000", "--rows", "1e7")
    assert (done.code, done.out) == (2, "")
    assert "1,000 rows are fewer than the 10,000 of the smallest size" in done.err


def test_warnings_of_the_run_are_those_of_its_forecasts(tmp_path: Path) -> None:
    contents = grown(stores=("faiss",))
    for record in contents.of("search"):
        record.phases[0].metrics |= {"other_cores": 1.5}
    folder = contents.write(tmp_path / "run")
    assert "busy with something else" in " ".join(call("forecast", folder).out.split())
    lines = call("forecast", folder, "-f", "jsonl").out.splitlines()
    told = [o["text"] for o in map(json.loads, lines) if o["kind"] == "warning"]
    assert any("busy with something else" in text for text in told)


def made_prices() -> Prices:
    import tomllib

    return Prices.model_validate(tomllib.loads(made.SHEET)["prices"])


# -- the command and the report ------------------------------------------------------------------


def test_a_report_holds_its_forecasts_against_the_largest_size(run: RunData) -> None:
    report = build(run)
    held = rows_of(report, "forecasts-held")
    assert {row["inside"].text for row in held} == {"yes"}
    assert held[0]["measured_to"].value == 200_000
    ahead = rows_of(report, "forecast-words")
    ready = next(row for row in ahead if row["quantity"].text == "Ready")
    assert ready["forecast"].value == pytest.approx(growth_runs.ready_s(10_000_000), rel=0.02)
    assert ready["forecast"].low < ready["forecast"].value < ready["forecast"].high


def test_the_command_prints_forecasts_and_nodes(folder: Path) -> None:
    done = call("forecast", folder, "--rows", "10M", "--qps", 5000, "--node-memory", "64GiB")
    assert done.code == 0, done.err
    assert "10,000,000 rows" in done.out
    assert "What it would take" in done.out
    assert "more than 100 times" not in done.out
    assert "more than 100 times" in call("forecast", folder, "--rows", "1e9").out
    assert "14 of 14 measured values" in call("forecast", folder, "--check").out
    markdown = call("forecast", folder, "--check", "--format", "md").out
    assert "| faiss | Ready |" in markdown


def test_json_lines_hold_what_a_program_needs(folder: Path) -> None:
    done = call(
        "forecast", folder, "--rows", "1e7", "--qps", 5000, "--node-memory", "64GiB",
        "--store", "faiss", "-f", "jsonl",
    )  # fmt: skip
    objects = [json.loads(line) for line in done.out.splitlines()]
    (memory,) = (o for o in objects if o.get("metric") == "rss_growth_bytes")
    assert memory["sizes"] == list(SIZES)
    assert memory["value"] == pytest.approx(growth_runs.memory_bytes(10_000_000), rel=0.02)
    (sizing,) = (o for o in objects if o["kind"] == "sizing")
    assert sizing["store"] == "faiss"
    assert sizing["median"]["nodes"] >= 1
    held = call("forecast", folder, "--check", "-f", "jsonl").out.splitlines()
    assert all(json.loads(line).get("inside", True) for line in held)


def test_prices_come_from_a_file_or_the_suite(tmp_path: Path) -> None:
    suite = (
        'name = "s"\ndatasets = [{ name = "words" }]\nstores = [{ store = "faiss" }]\n'
        'experiments = [{ experiment = "search" }]\n' + made.SHEET
    )
    folder = grown(stores=("faiss",), suite=suite).write(tmp_path / "run")
    assert "Per month" in call("forecast", folder, "--qps", 10).out
    sheet = tmp_path / "prices.toml"
    sheet.write_text(made.SHEET.replace("USD", "EUR"))
    done = call("forecast", folder, "--qps", 10, "--prices", sheet, "-f", "md")
    assert "EUR" in done.out
    sheet.write_text("currency = 3")
    done = call("forecast", folder, "--qps", 10, "--prices", sheet)
    assert (done.code, str(sheet) in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rows", "many"), "--rows"),
        (("--rows", "1e30"), "--rows"),
        (("--p99", "20"), "--p99"),
        (("--node-memory", "big"), "--node-memory"),
        (("--store", "redis"), "it holds faiss, hnswlib"),
    ],
)
def test_wrong_input_is_named_with_a_remedy(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    done = call("forecast", folder, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_run_of_one_size_says_what_it_lacks(tmp_path: Path) -> None:
    folder = grown(stores=("faiss",), sizes=(10_000,)).write(tmp_path / "run")
    done = call("forecast", folder)
    assert done.code == 2
    assert "needs 4 sizes of one dataset, and this run has 1" in done.err
    assert "suites/growth.toml" in done.err
    few = grown(stores=("faiss",), sizes=SIZES[:4]).write(tmp_path / "few")
    assert "--check needs five sizes" in call("forecast", few, "--check").err


# -- what an interval is worth -------------------------------------------------------------------


def test_an_exact_index_takes_a_time_for_each_row() -> None:
    trials = []
    for rows in SIZES:
        us = 50.0 + 0.02 * rows
        params = {"clients": 1, "loop": "closed"}
        phase = Phase("search", 0, SECOND, params, made.figures(1e6 / us, 2 * us, 1.0))
        phase.role = Role.SEARCH
        own = {"k": 10, "returns": "ids", "clients": 1}
        trials.append(made.trial("faiss", phase, experiment="search", rows=rows, params=own))
    found = curves(made.contents_of(trials, "").data())
    assert {(c.quantity.metric, c.quantity.exact) for c in found} == {
        ("qps", True),
        ("latency_p99", True),
    }
    for outlook in outlooks(found, 1e7):
        assert outlook.law is Law.LINEAR
        us = 50.0 + 0.02 * 1e7
        right = 1e6 / us if outlook.curve.quantity.metric == "qps" else 2 * us
        assert outlook.forecast.contains(right)
        assert outlook.forecast.value == pytest.approx(right, rel=0.02)


def test_recall_at_a_setting_falls_by_the_odds_of_a_miss() -> None:
    contents = grown(stores=("faiss",), sizes=SIZES[:-1])

    def recall(rows: int, ef: int) -> float:
        odds = rows**0.3 / (ef * 20)
        return 1 / (1 + odds)

    for record in contents.of("search"):
        phase = record.phases[0]
        phase.metrics["recall_mean"] = recall(record.row.rows, int(phase.params["ef_search"]))
    found = [c for c in curves(contents.data()) if c.quantity.is_recall]
    assert [dict(c.quantity.setting) for c in found] == [{"ef_search": 16}, {"ef_search": 64}]
    for outlook in outlooks(found, SIZES[-1]):
        right = recall(SIZES[-1], int(dict(outlook.curve.quantity.setting)["ef_search"]))
        assert outlook.forecast.value == pytest.approx(right, abs=0.01)
        assert 0 < outlook.forecast.low < right < outlook.forecast.high < 1


def test_a_disturbed_size_weighs_less_and_is_named(tmp_path: Path) -> None:
    contents = grown(stores=("faiss",), sizes=SIZES[:-1])
    for record in contents.of("search"):
        if record.row.rows == SIZES[1]:
            metrics = record.phases[0].metrics
            slow = {"qps": (metrics["qps"] or 0) / 3, "latency_p99": 9 * metrics["latency_p99"]}
            record.phases[0].metrics = {**metrics, **slow, "other_cores": 1.5}
    found = curves(contents.data())
    slowed = {c.quantity.metric for c in found if c.disturbed == (SIZES[1],)}
    assert slowed == {"qps", "latency_p99"}, "recall is the same on a busy machine"
    (qps,) = (
        o
        for o in outlooks(found, MILLION)
        if (o.curve.quantity.metric, o.curve.quantity.clients) == ("qps", 1)
    )
    assert qps.forecast.contains(1e6 / growth_runs.query_us(MILLION, 1))
    folder = contents.write(tmp_path / "run")
    text = " ".join(call("forecast", folder).out.split())
    assert "Other work disturbed faiss at 20,000 rows" in text


def test_an_interval_that_is_too_wide_says_what_narrows_it(tmp_path: Path) -> None:
    contents = grown(stores=("faiss",), sizes=SIZES[:4])
    for record, factor in zip(contents.of("ingest"), (1.0, 4.0, 0.3, 5.0), strict=True):
        record.phases[0].metrics["ready_s"] = factor * growth_runs.ready_s(record.row.rows)
    folder = contents.write(tmp_path / "run")
    text = " ".join(call("forecast", folder, "--rows", "200k").out.split())
    assert "Too wide to use (Ready of faiss)" in text
    assert "measure more repeats, and a larger size" in text
    lines = call("forecast", folder, "--rows", "200k", "-f", "jsonl").out.splitlines()
    usable = {o["metric"]: o["usable"] for o in map(json.loads, lines) if o["kind"] == "forecast"}
    assert usable == {**dict.fromkeys(usable, True), "ready_s": False}
