"""Runs on a Ray cluster: three hosts of our own on this machine, one of which shares no folder with
the others."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from busy_machine import missed_by_sampler, only_late
from ray_cluster import RayCluster

from vectrial.datasets import catalog, library, truth
from vectrial.datasets.exact import scan_here
from vectrial.model.dataset import Truth
from vectrial.results.reader import RunReader
from vectrial.servers.hosts import why_no_hosts
from vectrial.servers.namespaces import why_no_network
from vectrial.testing.server_programs import skip_or_fail

pytestmark = [pytest.mark.server("ray"), pytest.mark.slow]
SUITE = """
name = "elsewhere"
repeats = 2
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "memory"
index = "flat"
[[stores]]
store = "hnswlib"
index = "hnsw"
params = { m = [4, 8, 16] }
[[experiments]]
experiment = "search"
search = { ef_search = [16, 64] }
min_s = MIN_S
[client_limits]
cpu_share = 100
"""
#: Jobs and trials of it: a flat index has no ef_search.
JOBS, TRIALS = 2 * 4, 2 * (1 + 3 * 2)
#: A machine that answers says so within seconds; these machines share two processors.
_SOON_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    if why := why_no_hosts() or why_no_network():
        skip_or_fail("ray", why)
    base = Path(tempfile.mkdtemp(prefix="ray-"))  # a socket's path is short
    try:
        there = RayCluster(3, base / "t", base / "apart")
        try:
            yield there
        finally:
            there.close()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def suite_at(folder: Path, min_s: float = 0.2) -> str:
    path = folder / "suite.toml"
    path.write_text(SUITE.replace("MIN_S", str(min_s)))
    return str(path)


def statuses(folder: Path) -> list[str]:
    with RunReader(folder) as reader:
        return [row["status"] for row in reader.rows("select status from trial")]


def test_machines_are_checked(cluster: RayCluster) -> None:
    done = cluster.run("ray", "check", f"ray://{cluster.address}", "--format", "jsonl")
    assert done.returncode in (0, 1), done.stderr  # this machine may be busy with other tests
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["address"] for row in rows] == [host.address for host in cluster.hosts]
    assert len({row["kind"] for row in rows}) == 1
    # All have one clock: what is measured of its offset is the error, within what is stated.
    assert all(abs(row["clock_us"]) <= row["clock_error_us"] for row in rows)
    assert [row["ping_us"] is None for row in rows] == [True, False, False]
    assert all(0 <= row["interrupted_share"] <= 1 for row in rows)


def test_a_suite_on_three_machines(cluster: RayCluster, tmp_path: Path) -> None:
    done = cluster.run(
        "run", suite_at(tmp_path), "--on", f"ray://{cluster.address}", "--out", str(tmp_path / "o")
    )
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert statuses(folder) == ["ok"] * TRIALS
    used = {line.partition(":")[0] for line in done.stderr.splitlines() if "2,000 rows" in line}
    assert {"machine-1", "machine-2", "machine-3"} <= used
    assert "machine-3: sending dataset 'clustered-16-2k'" in done.stderr
    assert "machine-1: sending" not in done.stderr
    assert len(list((folder / "logs").glob("*.log"))) == JOBS
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["cluster"]["machines"] == 3
    assert (folder / "report" / "report.html").is_file()


def test_machines_may_go_and_a_run_may_be_resumed(cluster: RayCluster, tmp_path: Path) -> None:
    """One machine is killed while it measures, and its trials are measured by another; then the
    run is interrupted, the machine comes back, and the run is resumed."""
    on = ("--on", f"ray://{cluster.address}")
    lost = cluster.hosts[1]
    folders = tmp_path / "o"
    with cluster.running(
        "run", suite_at(tmp_path, min_s=4.0), *on, "--out", str(folders)
    ) as process:
        wait_for_status(folders, 1)
        cluster.kill(lost)
        assert process.stderr is not None
        assert any(f"({lost.address}) is lost" in line for line in process.stderr)
        wait_for_status(folders, TRIALS // 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=_SOON_S)
    assert process.returncode == 130, err
    (folder,) = (path for path in folders.iterdir() if not path.is_symlink())
    assert f"vectrial run --resume {folder} --on ray://{cluster.address}" in err
    before = statuses(folder)
    assert set(before) == {"ok"}
    assert TRIALS // 2 <= len(before) < TRIALS
    cluster.start(lost)
    done = cluster.run("run", "--resume", str(folder), *on)
    assert done.returncode == 0, done.stderr
    assert statuses(folder) == ["ok"] * TRIALS


JOIN_WITH_A_STALE_NODE = """
import json, sys, time, ray
from vectrial_ray import cluster
with cluster.connected(sys.argv[1]):
    while not (gone := [node for node in ray.nodes() if not node["Alive"]]):
        time.sleep(0.1)
    stale = {**gone[-1], "Alive": True, "Resources": {"CPU": 1.0}}
    lists = iter([[stale, *(node for node in ray.nodes() if node["Alive"])]])
    now = ray.nodes
    ray.nodes = lambda: next(lists, None) or now()
    joined = cluster.join()
    cluster.leave([machine.actor for machine in joined])
print(json.dumps([machine.address for machine in joined]))
"""


def test_a_machine_that_is_back_at_once(cluster: RayCluster) -> None:
    """For some seconds Ray still lists its old node, which no actor can be placed on. The script
    puts that node into the list, so that the test needs no luck."""
    back = cluster.hosts[1]
    cluster.kill(back)
    cluster.start(back)
    done = cluster.run_python(JOIN_WITH_A_STALE_NODE, cluster.address)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [host.address for host in cluster.hosts]


def same_truth(printed: str, expected: Truth) -> None:
    """As `vectrial data truth --format jsonl` prints it."""
    for query, line in enumerate(printed.splitlines()):
        found, accepted = json.loads(line), expected.accept_offsets[query : query + 2]
        assert found["ids"] == expected.ids[query].tolist()
        assert found["distances"] == expected.distances[query].tolist()
        assert found["accepted"] == expected.accept_ids[slice(*accepted)].tolist()
    assert len(printed.splitlines()) == len(expected.ids)


def test_exact_neighbours_by_three_machines(cluster: RayCluster) -> None:
    """To the last bit those of one machine, under the filters of the queries too; one of the
    machines reads the rows that it is sent."""
    name = "clustered-8-1m-filtered"
    catalog.ensure(name, lambda *_: None)
    dataset = library.load(name)
    command = ("data", "truth", name, "--on", f"ray://{cluster.address}", "--format", "jsonl")
    done = cluster.run(*command, "-k", "7")
    assert done.returncode == 0, done.stderr
    where = dataset.filters
    assert where is not None
    same_truth(done.stdout, truth._computed(dataset, 7, where, dataset.rows, None, scan_here))


APART = """
name = "apart"
repeats = 1
[[datasets]]
name = "clustered-16-2k-cosine"
queries = 50
[[stores]]
store = "redis"
provider = "local"
[placement]
client_machines = MACHINES
[client_limits]
cpu_share = 100
ceiling_share = 100
lag_us = 1e9
"""
CLOSED = """
[[experiments]]
experiment = "search"
clients = [4]
min_s = 0.5
[[experiments]]
experiment = "search"
rates = [100]
duration_s = 2.0
"""
OPEN = """
[[experiments]]
experiment = "search"
rates = [100]
duration_s = 35.0
"""


def phases(folder: Path) -> list[dict[str, object]]:
    """Of each phase: whether it is valid, its reason, its parameters and its metrics; of those that
    are missing, why."""
    with RunReader(folder) as reader:
        rows = reader.rows(
            "select phase_id, p.valid as valid, p.reason as reason, params, m.name as name, value,"
            " m.reason as why"
            " from phase p join metric m using (phase_id) order by phase_id"
        )
    found: dict[int, dict[str, object]] = {}
    for row in rows:
        one = found.setdefault(row["phase_id"], {"valid": row["valid"], "reason": row["reason"]})
        one |= json.loads(row["params"])
        one[row["name"]] = row["why"] if row["value"] is None else row["value"]
    return list(found.values())


def run_apart(cluster: RayCluster, folder: Path, machines: int, *options: str) -> Path:
    """The run of a suite whose searches so many machines send."""
    suite = folder / "suite.toml"
    suite.write_text(APART.replace("MACHINES", str(machines)) + CLOSED)
    done = cluster.run(
        "run", str(suite), "--on", f"ray://{cluster.address}", "--out", str(folder / "o"),
        "--allow-exposed", *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.parametrize("machines", [1, 2])
def test_searches_from_client_machines(cluster: RayCluster, tmp_path: Path, machines: int) -> None:
    folder = run_apart(cluster, tmp_path, machines)
    assert statuses(folder) == ["ok", "ok"]
    closed, opened = phases(folder)
    names = " and ".join(f"machine-{number}" for number in range(2, 2 + machines))
    assert closed["valid"], closed
    faults, *_ = str(opened["reason"]).partition("; sent by")
    assert opened["valid"] or only_late(faults), opened
    for phase in (closed, opened):
        assert phase["client_machines"] == machines
        assert f"sent by {names}; they began within" in str(phase["reason"])
        assert phase["errors"] == 0
        assert phase["recall_mean"] > 0.9
        assert phase["ceiling_qps"] > 0
        used = phase["server_cpu_s"]
        assert missed_by_sampler(used) if isinstance(used, str) else used > 0
    # Whole passes of each machine over its part of the queries.
    assert closed["count"] % (50 // machines) == 0
    assert closed["clients"] == 4
    # One schedule: a Poisson process of 200 arrivals on average.
    assert 140 < opened["count"] + opened["unsent"] < 260


def test_a_lost_client_machine_invalidates_the_phase(cluster: RayCluster, tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(APART.replace("MACHINES", "2") + OPEN)
    lost = cluster.hosts[1]
    with cluster.running(
        "run", str(suite), "--on", f"ray://{cluster.address}", "--out", str(tmp_path / "o"),
        "--allow-exposed",
    ) as process:  # fmt: skip
        wait_for_work(tmp_path / "o", "the client machines send")
        time.sleep(15)  # connected, warmed up and sending, also where the machine is busy
        cluster.kill(lost)
        out, err = process.communicate(timeout=_SOON_S)
    cluster.start(lost)
    assert process.returncode == 0, err
    folder = Path(out.strip())
    assert statuses(folder) == ["invalid"]
    (phase,) = phases(folder)
    assert not phase["valid"]
    assert "machine-2 was lost while it sent: its requests are missing" in str(phase["reason"])
    assert phase["client_machines"] == 1


def test_too_few_machines_and_exposed_servers_are_refused(
    cluster: RayCluster, tmp_path: Path
) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(APART.replace("MACHINES", "3") + CLOSED)
    on = ("run", str(suite), "--on", f"ray://{cluster.address}", "--out", str(tmp_path / "o"))
    done = cluster.run(*on)
    assert done.returncode == 2
    told = "3 client machines and one for the store are 4, and the cluster has 3 of one kind"
    assert f"placement.client_machines: {told}" in done.stderr
    suite.write_text(APART.replace("MACHINES", "1") + CLOSED)
    done = cluster.run(*on)
    assert done.returncode == 2
    assert "--allow-exposed, where only you can reach that network" in done.stderr


def wait_for_work(folders: Path, what: str) -> None:
    """Until the one run in a folder says that it does this."""
    ends = time.monotonic() + _SOON_S
    while time.monotonic() < ends:
        for status in folders.glob("*/progress.json"):
            if json.loads(status.read_text()).get("what") == what:
                return
        time.sleep(0.1)
    raise AssertionError(f"no '{what}' within {_SOON_S:g} s")


def wait_for_status(folders: Path, trials: int) -> None:
    """Until so many trials of the one run in a folder have ended."""
    ends = time.monotonic() + _SOON_S
    while time.monotonic() < ends:
        for status in folders.glob("*/progress.json"):
            if json.loads(status.read_text()).get("done", 0) >= trials:
                return
        time.sleep(0.1)
    raise AssertionError(f"not {trials} trials within {_SOON_S:g} s")


def test_a_place_where_nothing_answers(cluster: RayCluster, tmp_path: Path) -> None:
    there = ("--on", "ray://127.18.1.1:1", "--out", str(tmp_path / "o"))
    done = cluster.run("run", suite_at(tmp_path), *there)
    assert done.returncode == 2
    assert "--on: nothing answers at 127.18.1.1:1: Connection refused" in done.stderr
    assert not (tmp_path / "o").exists()
