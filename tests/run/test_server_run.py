"""A run on a store with a server: measured beside the client, and gone with the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from busy_machine import missed_by_sampler
from small_suite import EASY, Vectrial

from vectrial.results.reader import RunReader
from vectrial.servers.namespaces import why_no_network
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program
from vectrial.util.paths import servers_dir

pytestmark = [pytest.mark.slow, pytest.mark.server("weaviate")]

SUITE = """
name = "served"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "weaviate"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
lane = ["native", "sdk"]
[[experiments]]
experiment = "storage"
[[experiments]]
experiment = "search"
search = { ef_search = [16, 128] }
min_s = 0.3
"""


@pytest.fixture
def served(tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The suite; the program is that of this machine's cache, found by a run in its own home."""
    variables["VECTRIAL_WEAVIATE_BIN"] = str(program(WEAVIATE))
    assert servers_dir().exists() or os.environ.get("VECTRIAL_WEAVIATE_BIN")
    path = tmp_path / "served.toml"
    path.write_text(SUITE + EASY)
    return path


def servers() -> Iterator[psutil.Process]:
    """Weaviate servers that run on this machine."""
    for process in psutil.process_iter(["cmdline"]):
        if any("weaviate-server" in part for part in process.info["cmdline"] or ()):
            yield process


def start(suite: Path, folder: Path, variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vectrial.cli.main", "run", str(suite)],
        cwd=folder,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_measuring(run: subprocess.Popen[str]) -> psutil.Process:
    """Wait for the first trial's line; returns the server of this run."""
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("  weaviate "):
            break
    mine = {p.pid for p in psutil.Process(run.pid).children(recursive=True)}
    return next(p for p in servers() if p.pid in mine and "guard.py" not in " ".join(p.cmdline()))


def ended(process: psutil.Process) -> bool:
    return not psutil.wait_procs([process], timeout=60)[1]


def test_both_lanes_on_a_real_server(served: Path, vectrial: Vectrial) -> None:
    done = vectrial("run", str(served))
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    with RunReader(folder) as run:
        assert run.rows("select store, experiment, reason from trial where status <> 'ok'") == []
        assert {r["lane"] for r in run.rows("select lane from trial")} == {"native", "sdk"}
        recall = {
            lane: {
                m["trial_params"]["ef_search"]: m["value"]
                for m in run.measured()
                if m["metric"] == "recall_mean" and m["lane"] == lane
            }
            for lane in ("native", "sdk")
        }
        assert recall["native"].keys() == {16, 128}
        assert recall["native"] == pytest.approx(recall["sdk"], abs=0.002)
        seen = run.rows("select distinct process from telemetry order by process")
        assert seen == [{"process": "client"}, {"process": "server"}]
        _check_telemetry(run)
        (server,) = run.rows("select distinct server from trial")
        network = "this machine's" if why_no_network() else "its own"
        assert json.loads(str(server["server"]))["network"] == network
        size = {m["metric"]: m["value"] for m in run.measured() if m["experiment"] == "storage"}
        assert size["disk_bytes"] > 2000 * 16 * 4, "it is the server's folder that is measured"
        assert size["rss_bytes"] > 20e6, "and the server's memory"
    assert list((folder / "logs").glob("weaviate-*-server.log")), "its log is kept"
    assert not (folder / "work").exists(), "its data is not"
    open_ones = [one for one in (folder, *folder.rglob("*")) if one.stat().st_mode & 0o077]
    assert [one for one in open_ones if "report" not in one.parts] == [], "others may read them"


def _cpu_of_phases(run: RunReader) -> tuple[dict[int, float], set[int]]:
    """Processor seconds of the server by trial, where they are known, and the trials with a phase
    that a busy machine told too late for that."""
    found = run.rows(
        "select trial_id, value, metric.reason as why from metric join phase using (phase_id)"
        " where metric.name = 'server_cpu_s'"
    )
    missing = [row for row in found if row["value"] is None]
    assert [row for row in missing if not missed_by_sampler(row["why"])] == []
    known: dict[int, float] = {}
    for row in found:
        if row["value"] is not None:
            known[row["trial_id"]] = known.get(row["trial_id"], 0.0) + row["value"]
    return known, {row["trial_id"] for row in missing}


def _check_telemetry(run: RunReader) -> None:
    """Processor seconds of phases are those of the process, and memory and disk are its own."""
    used = run.rows(
        "select trial_id, max(cpu_s) - min(cpu_s) as cpu_s, max(peak_rss_bytes) as peak,"
        " max(rss_bytes) as rss, max(disk_bytes) as disk from telemetry"
        " where process = 'server' group by trial_id order by trial_id"
    )
    phases, late = _cpu_of_phases(run)
    sweeps = run.rows("select trial_id from trial where experiment = 'search'")
    assert len(sweeps) == 4
    for trial in used:
        assert trial["trial_id"] in phases.keys() | late
        in_phases = phases.get(trial["trial_id"], 0.0)
        assert in_phases <= trial["cpu_s"] + 0.03, "more than the process used"
        # The kernel's record is kept in steps, so that a sample may be a little above it.
        assert trial["peak"] >= 0.95 * trial["rss"] > 20e6
        assert trial["disk"] > 2000 * 16 * 4
    searched = [phases[sweep["trial_id"]] for sweep in sweeps if sweep["trial_id"] in phases]
    assert searched
    assert min(searched) > 0, "searching costs the server something"
    # What one trial ends with, the next begins with: nothing is lost in between.
    ends = run.rows(
        "select min(cpu_s) as first, max(cpu_s) as last from telemetry"
        " where process = 'server' group by trial_id order by trial_id"
    )
    for before, after in pairwise(ends):
        assert after["first"] >= before["last"]
    idle = run.rows("select disk_bytes from telemetry where process = 'client'")
    assert {row["disk_bytes"] for row in idle} == {None}, "the disk is counted once"


def test_the_server_ends_with_a_run_that_is_killed(
    served: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    run = start(served, tmp_path, variables)
    server = until_measuring(run)
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=200)
    assert ended(server)
