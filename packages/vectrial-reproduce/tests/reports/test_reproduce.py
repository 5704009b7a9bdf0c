"""A report measured again through the command line, small, on stores that are really there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Table
from vectrial.servers.minio import MINIO
from vectrial.stores import registry
from vectrial.testing.server_programs import program
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.figures_data import Plot, plot
from vectrial_reproduce.reports.figures_render import Palette, chart
from vectrial_reproduce.reports.jsonl import KEYS
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Arm, Drawing, DrawnSeries, Part, Reproduction
from vectrial_reproduce.reports.page_tables import further_results
from vectrial_reproduce.reports.published import figures

pytestmark = pytest.mark.slow

SUITE = """
name = "small"
repeats = 1
datasets = [{ name = "clustered-16-2k", queries = 50 }]
stores = [
    { store = "memory", index = "flat" },
    { store = "hnswlib", index = "hnsw", params = { m = 16, ef_construction = [64, 128] } },
]
experiments = [
    { experiment = "ingest", checkpoints = [1.0], probes = 0 },
    { experiment = "search", search = { ef_search = [32, 64] }, min_s = 0.1 },
    { experiment = "crud", samples = 20 },
    { experiment = "time_to_searchable", looks = 4 },
    { experiment = "search", sizes = [200, 2000], min_s = 0.1 },
]
"""


def vectrial(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "VECTRIAL_HOME": str(folder / "home")},
        timeout=570,
        check=False,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> MeasuredPart:
    """A small run of stores of this environment."""
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "small.toml").write_text(SUITE)
    done = vectrial(folder, "run", "small.toml", "--no-report")
    assert done.returncode == 0, done.stderr
    return MeasuredPart(load(Path(done.stdout.strip())), "clustered-16-2k", 2000)


@pytest.fixture(scope="module")
def found(measured: MeasuredPart) -> dict[tuple[object, ...], ComparedFigure]:
    """Cells of the SIFT report's figures, with stores of this environment in place of two of
    its systems."""
    told = REPRODUCTIONS["docarray-sift1m"]
    whole = told.parts[0]
    part = Part(
        "sift", "", whole.dataset, whole.sources, whole.rows, 50, 10,
        (Arm("In-Memory", "memory", "flat"), Arm("Redis", "hnswlib", "hnsw")),
        whole.asks, whole.measures,
    )  # fmt: skip
    report = Reproduction(told.name, "", "", "", 1, (part,), ())
    every = cells(report, {"sift": measured}, known=registry.names())
    return {
        (c.figure.store, c.figure.metric, c.figure.params.get("m"),
         c.figure.params.get("ef_construction"), c.figure.params.get("ef_search")): c
        for c in every
    }  # fmt: skip


def test_a_cell_holds_what_was_measured_at_its_own_settings(
    found: dict[tuple[object, ...], ComparedFigure],
) -> None:
    low = found["Redis", "recall", 16, 64, 32]
    high = found["Redis", "recall", 16, 64, 64]
    assert low.valid
    assert low.measured is not None
    assert high.measured is not None
    assert low.measured <= high.measured <= 1
    assert low.ratio == pytest.approx(low.measured / low.figure.value)


def test_units_are_those_of_the_report(found: dict[tuple[object, ...], ComparedFigure]) -> None:
    exact = found["In-Memory", "find_by_vector", None, None, None]
    graph = found["Redis", "find_by_vector", 16, 64, 32]
    assert (exact.figure.unit, graph.figure.unit) == ("s", "ms")
    assert exact.measured is not None
    assert graph.measured is not None
    assert exact.measured < 0.05, "seconds"
    assert graph.measured > 0.001, "milliseconds"


def test_what_is_measured_once_a_build_stands_in_each_of_its_rows(
    found: dict[tuple[object, ...], ComparedFigure], measured: MeasuredPart
) -> None:
    told = {
        trial.index_params["ef_construction"]: phase.metrics["latency_p50"].value
        for trial in measured.run.trials
        for phase in trial.phases
        if (trial.series.store, trial.experiment, phase.name) == ("hnswlib", "crud", "read")
    }
    (read,) = {found["Redis", "read", 16, 64, ef].measured for ef in (32, 64, 128, 256)}
    assert read == pytest.approx((told[64] or 0) / 1e3)
    assert found["Redis", "read", 16, 128, 32].measured == pytest.approx((told[128] or 0) / 1e3)


def test_a_scan_is_compared_per_row_and_a_graph_is_not(
    found: dict[tuple[object, ...], ComparedFigure],
) -> None:
    scan = found["In-Memory", "find_by_vector", None, None, None]
    graph = found["Redis", "find_by_vector", 16, 64, 32]
    assert scan.measured is not None
    assert graph.measured is not None
    assert scan.ratio == pytest.approx(scan.measured / (scan.figure.value * 0.002))
    assert graph.ratio == pytest.approx(graph.measured / graph.figure.value)
    assert scan.stand_in == graph.stand_in == "clustered-16-2k"


def test_what_was_not_measured_says_why(found: dict[tuple[object, ...], ComparedFigure]) -> None:
    assert found["Redis", "recall", 32, 64, 32].note.startswith("skipped: not measured at these")
    assert found["Redis", "find_by_condition", 16, 64, 32].measured is None
    assert found["AnnLite", "recall", 16, 64, 32].note.startswith("not yet: no store")


ARMS = (Arm("Exact", "memory", "flat"), Arm("Graph", "hnswlib", "hnsw"))


def curve_of(curve: DrawnSeries, measured: MeasuredPart, part: str = "own") -> Plot:
    own = Part("own", "", "", (), 2000, 50, 10, ARMS, (), ())
    report = Reproduction("docarray-1m", "", "", "", 1, (own,), ())
    drawing = Drawing("one", "", "Figure 9", "none", "line", (), "", "", curve=curve)
    return plot(drawing, report, [], {part: measured})


def test_availability_over_time_is_drawn_from_the_run(measured: MeasuredPart) -> None:
    curve = DrawnSeries("own", "time_to_searchable", "look", "elapsed_s", "share_found", 100.0)
    one = curve_of(curve, measured)
    exact = [dot for dot in one.dots if dot.system == "Exact"]
    assert len(exact) >= 3
    assert [dot.x for dot in exact] == sorted(dot.x or 0.0 for dot in exact)
    assert exact[-1].value == 100.0
    assert one.systems == ("Exact", "Graph")
    assert one.moments == ()


def test_when_loads_end_and_are_indexed_is_drawn_and_told(measured: MeasuredPart) -> None:
    curve = DrawnSeries(
        "own", "time_to_searchable", "look", "elapsed_s", "share_found", 100.0, "searchable"
    )
    one = curve_of(curve, measured)
    at = {(m.system, m.metric): m.x for m in one.moments}
    assert 0 < at["Graph", "load_s"] <= at["Graph", "ready_s"]
    layers = chart(one, Palette(("Exact", "Graph")))(800, True)["layer"]
    assert sum(layer["mark"]["type"] == "rule" for layer in layers) == 2
    (table,) = [t for t in further_results({"own": measured})["ingest"] if isinstance(t, Table)]
    # A grid of builds has a load each.
    assert [row.cells[0].text for row in table.rows] == ["memory", "hnswlib", "hnswlib"]
    assert all(cell.value is not None for row in table.rows for cell in row.cells[1:4])


def test_latency_against_size_is_drawn_from_the_run(measured: MeasuredPart) -> None:
    curve = DrawnSeries("own", "search", "search", "rows", "latency_mean", 1e-3)
    one = curve_of(curve, measured)
    (dot, *_) = [dot for dot in one.dots if dot.system == "Exact" and dot.rows == 2000]
    assert {dot.x for dot in one.dots} == {200, 2000}
    assert 0.001 < dot.value < 50, "milliseconds"
    assert [m.why for m in curve_of(curve, measured, "other").missing] == [
        "skipped: not measured in this run"
    ]


@pytest.mark.server("minio")
def test_through_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of which two figures have a counterpart here: a thousand rows through MinIO."""
    monkeypatch.setenv("VECTRIAL_MINIO_BIN", str(program(MINIO)))
    listed = vectrial(tmp_path, "reproduce")
    assert listed.returncode == 0, listed.stderr
    assert "docarray-sift1m" in listed.stdout
    small = ("--part", "pipeline", "--store", "faiss", "--scale", "0.001")
    done = vectrial(tmp_path, "reproduce", "aistor-index", *small, "-f", "jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(figures("aistor-index"))
    more = (
        "rows", "source", "measured_store", "repeats", "low", "high", "client", "through",
    )  # fmt: skip
    assert {tuple(row) for row in rows} == {(*KEYS, *more)}
    measured = {row["metric"]: row for row in rows if row["measured"] is not None}
    assert set(measured) == {"index_time", "speed_up"}
    assert all(row["valid"] and row["ratio"] is None for row in measured.values())
    assert measured["index_time"]["params"]["device"] == "cpu"
    assert "no ratio: theirs is of 106 million rows" in measured["index_time"]["note"]
    assert measured["speed_up"]["measured"] > 1
    rest = [row for row in rows if row["measured"] is None]
    (gpu,) = (row for row in rest if row["metric"] == "index_time")
    assert gpu["note"].startswith("skipped: cuvs was left out")
    assert all(row["note"].startswith("not yet: ") for row in rest if row is not gpu)
    (folder,) = (tmp_path / "runs").iterdir()
    written = (folder / "reproduction.md").read_text()
    assert "| 18.6 → — " in written, "published, and nothing beside"
    assert "](figures/index-time.svg)" in written
    again = vectrial(tmp_path, "reproduce", "--show", str(folder), "-f", "md")
    assert again.stdout == written
    again = vectrial(tmp_path, "reproduce", "--show", str(folder), "-f", "jsonl")
    assert again.stdout == done.stdout
    assert {path.name for path in (folder / "figures").iterdir()} == {
        "index-time.svg", "index-time.png",
    }  # fmt: skip
    assert "<svg" in (folder / "report" / "report.html").read_text()
    shutil.rmtree(folder / "figures")
    again = vectrial(tmp_path, "reproduce", "--show", str(folder), "-f", "md")
    assert "](figures/" not in again.stdout, "nothing lies there"
    for arguments in (
        ["docarray-1m", "--show", str(folder)],
        ["docarray-1m", "--scale", "0"],
        ["--resume", str(folder), "--scale", "0.1"],
        ["--show", str(folder), "--store", "faiss"],
        ["--resume", str(folder), "--store", "hnswlib"],
        ["--show", str(folder), "--dry-run"],
    ):
        refused = vectrial(tmp_path, "reproduce", *arguments)
        assert refused.returncode == 2, refused.stderr
    wrong = vectrial(tmp_path, "reproduce", "docaray-1m")
    assert wrong.returncode == 2
    assert "docarray-1m" in wrong.stderr
