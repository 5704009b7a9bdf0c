"""The anomaly experiment in a run, on a library and on a server, to its section of the report."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from painted_pictures import ANOMALIES, CLASSES, pictures
from small_suite import EASY, Inside, Vectrial

from vectrial.datasets import library
from vectrial.results.reader import RunReader
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program

SUITE = """
name = "anomalies"
repeats = {repeats}
k = 10
[[datasets]]
name = "pictures"
[[stores]]
{store}
[[experiments]]
experiment = "anomaly"
search = {{ ef_search = 64 }}
min_s = 0.1
"""
JUDGED = ("class", "classes", "together")


def saved(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The made pictures, in the library of the run; the first query is there twice."""
    monkeypatch.setenv("VECTRIAL_HOME", home)
    made = pictures()
    assert made.query_metadata is not None
    again = [*range(len(made.queries)), 0]
    library.save(
        made.name,
        metric=made.metric,
        vectors=made.vectors,
        queries=made.queries[again],
        provenance=replace(made.provenance, notes=("made by a test",)),
        metadata=made.metadata,
        query_metadata=made.query_metadata.take(again),
        replace_existing=True,
    )


def figures(folder: Path) -> dict[tuple[str, str, str, str], float]:
    """Lane, phase, class and metric → value, of the first repeat."""
    with RunReader(folder) as run:
        bad = run.rows("select store, lane, status, reason from trial where status <> 'ok'")
        assert bad == []
        return {
            (m["lane"], m["phase"], m["phase_params"].get("of", ""), m["metric"]): m["value"]
            for m in run.measured()
            if m["repeat"] == 1
        }


def check(found: dict[tuple[str, str, str, str], float], lane: str) -> None:
    for name in CLASSES:
        own = {
            m: value for (where, _, of, m), value in found.items() if (where, of) == (lane, name)
        }
        assert 0.5 < own["auroc"] <= 1
        assert own["auroc"] == pytest.approx(own["auroc_exact"], abs=0.01)
        assert own["anomalous_queries"] == ANOMALIES
        assert own["false_alarm_rate"] <= 0.3
    assert found[lane, "search", "", "duplicate_queries"] == 1
    timed = found[lane, "search", "", "recall_mean"]
    assert timed == pytest.approx(found[lane, "classes", "", "recall_mean"], abs=0.01)
    assert timed > 0.99


@pytest.mark.usefixtures("in_process")
def test_from_a_dataset_to_the_report(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(str(tmp_path / "home"), monkeypatch)
    suite = tmp_path / "anomalies.toml"
    suite.write_text(SUITE.format(repeats=2, store='store = "hnswlib"\nindex = "hnsw"') + EASY)
    done = inside("run", str(suite))
    assert done.code == 0, done.err
    folder = Path(done.out.strip())
    found = figures(folder)
    check(found, "embedded")
    told = inside("report", str(folder), "--format", "md")
    assert told.code == 0, told.err
    page = (folder / "report" / "report.md").read_text()
    assert "Anomalies among the normal" in page
    assert "⌊0.05 · (n + 1)⌋-th" in page
    assert all(name in page for name in CLASSES)
    tables = inside("report", str(folder), "--format", "csv")
    assert tables.code == 0, tables.err
    (file,) = folder.glob("report/**/anomaly-classes-*.csv")
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert {row["class"] for row in rows} == set(CLASSES)


@pytest.mark.slow
@pytest.mark.server("weaviate")
def test_both_lanes_of_a_server_find_the_same(
    vectrial: Vectrial, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables["VECTRIAL_WEAVIATE_BIN"] = str(program(WEAVIATE))
    saved(variables["VECTRIAL_HOME"], monkeypatch)
    suite = tmp_path / "anomalies.toml"
    store = 'store = "weaviate"\nindex = "hnsw"\nlane = ["native", "sdk"]'
    suite.write_text(SUITE.format(repeats=1, store=store) + EASY)
    done = vectrial("run", str(suite))
    assert done.returncode == 0, done.stderr
    found = figures(Path(done.stdout.strip()))
    for lane in ("native", "sdk"):
        check(found, lane)
    for (lane, phase, of, metric), value in found.items():
        if lane == "native" and phase in JUDGED and metric.startswith(("auroc", "detection")):
            assert value == pytest.approx(found["sdk", phase, of, metric], abs=0.02)
