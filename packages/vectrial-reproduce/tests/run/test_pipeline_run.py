"""A pipeline through the command line: it is killed on its way, and gone on with."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from installed_package import install
from report_tables import rows_of
from small_suite import Vectrial

from vectrial.analysis.run_data import RunData, load
from vectrial.report.build import build
from vectrial.servers.minio import MINIO
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.testing.server_programs import program, require_startable

SUITE = """
name = "pipeline"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-8k"
queries = 50
[[stores]]
store = "hnswlib"
index = "hnsw"
params = {{ m = 16, ef_construction = 40 }}
[[experiments]]
experiment = "index_pipeline"
objects = {objects}
segment_rows = 1000
search = {{ ef_search = 64 }}
min_s = 0.1
"""


#: A store of a package: hnswlib, which in a pipeline builds one index, and no second one while it
#: is held.
STORE = """
import time
from pathlib import Path
from vectrial.stores.hnswlib import HnswlibStore

HERE = Path(__file__).parents[1]
BUILT = []

class PausedStore(HnswlibStore):
    name = "held"

    def build(self):
        super().build()
        if any(HERE.glob("runs/*/objects/*")):
            BUILT.append(self)
        while len(BUILT) > 1 and (HERE / "held").exists():
            time.sleep(0.05)
"""


def suite(folder: Path, *, objects: str = '"folder"') -> Path:
    path = folder / "pipeline.toml"
    path.write_text(SUITE.format(objects=objects))
    return path


def phases(run: RunData, name: str) -> list[dict[str, float | None]]:
    found = [phase for _, phase in run.phases() if phase.name == name]
    return [{metric: phase.value(metric) for metric in phase.metrics} for phase in found]


@pytest.mark.server("minio")
def test_segments_through_minio_are_searched_together(
    vectrial: Vectrial, variables: dict[str, str], tmp_path: Path
) -> None:
    variables["VECTRIAL_MINIO_BIN"] = str(program(MINIO))
    places = '["folder", "minio"]\nbuilders = [1, 2]'
    done = vectrial("run", str(suite(tmp_path, objects=places)), "--no-report")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    run = load(folder)
    assert [trial.status for trial in run.trials] == ["ok"] * 4
    assert not (folder / "objects").exists(), "nothing is left of what was put"
    for found in phases(run, "index"):
        assert found["segments"] == 8
        assert found["build_sum_s"] is not None
        assert found["pipeline_wall_s"] is not None
        assert (found["in_flight_bytes"] or 0) <= (found["in_flight_limit_bytes"] or 0)
    together, alone = phases(run, "search"), phases(run, "search_merged")
    assert len(together) == 4
    (whole,) = alone
    for one in together:
        assert (one["recall_mean"] or 0) >= (whole["recall_mean"] or 0) - 0.01
    assert len(phases(run, "step")) == 4 * 7 * 8
    report = build(run)
    totals = rows_of(report, "pipeline-clustered")
    assert {row["phase"].text for row in totals} == {"put", "index", "load"}
    critical = {row["critical"].text for row in totals if row["phase"].text == "index"}
    assert critical <= {"get", "check", "build", "write back"}
    stages = rows_of(report, "pipeline-stages")
    assert len(stages) == 4 * 7
    assert [figure.name for figure in report.figures()] == [
        "pipeline-clustered-16-8k-8000-hnswlib-hnsw"
    ]
    # Secrets are made for each server; none is written.
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"MINIO_ROOT_PASSWORD" not in path.read_bytes(), path


@pytest.mark.slow
def test_a_pipeline_that_was_killed_goes_on_with_what_lacks_an_index(
    variables: dict[str, str], tmp_path: Path
) -> None:
    entry = "[vectrial.stores]\nheld = held_store:PausedStore\n"
    package = install(tmp_path / "package", "held", entry, held_store=STORE)
    env = {**variables, "PYTHONPATH": str(package)}
    (tmp_path / "held").touch()
    command = [sys.executable, "-m", "vectrial.cli.main", "run", "--no-report"]
    path = suite(tmp_path)
    text = path.read_text().replace("hnswlib", "held")
    path.write_text(text.replace("min_s", "merged = false\nmin_s"))
    first = subprocess.Popen(
        [*command, str(path)], cwd=tmp_path, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    receipts = "runs/*/objects/*/objects/indexes/*.receipt.json"
    ends = time.monotonic() + 120
    while not list(tmp_path.glob(receipts)):
        assert time.monotonic() < ends
        assert first.poll() is None
        time.sleep(0.02)
    measuring = [
        child
        for child in psutil.Process(first.pid).children(recursive=True)
        if "vectrial.worker.worker" in " ".join(child.cmdline())
    ]
    for child in measuring:
        child.send_signal(signal.SIGKILL)
    out, _ = first.communicate(timeout=200)
    folder = Path(out.strip())
    assert [trial.status for trial in load(folder).trials] == ["failed"]
    (tmp_path / "held").unlink()
    subprocess.run([*command, "--resume", str(folder)], cwd=tmp_path, env=env, check=True)
    run = load(folder)
    assert [trial.status for trial in run.trials] == ["ok"]
    (put,), (index,) = phases(run, "put"), phases(run, "index")
    assert put["resumed_segments"] == 8
    assert index["resumed_segments"] == 1
    assert index["pipeline_wall_s"] is None, "no clock saw all of it"
    (found,) = phases(run, "search")
    assert (found["recall_mean"] or 0) > 0.95
    assert not (folder / "objects").exists()


@pytest.mark.server("milvus")
def test_a_server_imports_segments_from_its_own_object_store(
    variables: dict[str, str], tmp_path: Path
) -> None:
    recipe = recipe_of(registry.load("milvus"))
    assert recipe is not None
    require_startable(recipe, nodes=2)
    path = tmp_path / "imported.toml"
    text = SUITE.format(objects='"minio"').replace(
        'store = "hnswlib"', 'store = "milvus"\nnodes = 2'
    )
    path.write_text(text.replace("segment_rows = 1000", "segment_rows = 4000"))
    # The programs are those of this machine's cache.
    env = {name: value for name, value in variables.items() if name != "VECTRIAL_HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", "run", str(path), "--no-report"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = load(Path(done.stdout.strip()))
    (trial,) = run.trials
    assert trial.status == "ok", trial.reason
    (put,), (imported,), (index,) = (phases(run, name) for name in ("put", "import", "index"))
    raw = 8000 * 16 * 4
    assert (put["objects_written_bytes"] or 0) >= raw
    assert (imported["objects_read_bytes"] or 0) >= raw, "the segments are read from there"
    assert (imported["objects_written_bytes"] or 0) >= raw, "and written as its own files"
    assert (index["objects_written_bytes"] or 0) > 0, "indexes are written back"
    (found,) = phases(run, "search")
    assert (found["recall_mean"] or 0) > 0.95
