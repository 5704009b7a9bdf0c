"""One client machine beside two: the same latencies at the same rate, and twice the rate where a
client is slow.

Three hosts of our own (networks of this machine), a Ray cluster on them, and a Redis on one. The
others send the searches: first 300 a second, from one and from both; then as many as 8 clients can,
each machine with a twentieth of a processor, so that the clients are what is slow. Needs root, the
Ray extra and Redis's program; eight minutes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness
from vectrial.api import Run
from vectrial.model.placement import Limits
from vectrial.servers.limits import group_name, make_groups
from vectrial.servers.supervisor import remove

sys.path.insert(0, str(Path(__file__).parent.parent / "packages/vectrial-ray/tests/support"))
from ray_cluster import RayCluster

REPEATS = 5
QUOTA = 0.05
BASELINE = "one client machine"
SUITE = """
name = "client-machines"
repeats = {repeats}
[[datasets]]
name = "clustered-64-20k-cosine"
queries = 500
[[stores]]
store = "redis"
provider = "local"
[placement]
client_machines = {machines}
[client_limits]  # nothing is left out: how a client beyond its limits does is the question
cpu_share = 100
ceiling_share = 100
lag_us = 1e9
[[experiments]]
experiment = "search"
{load}
"""


def measured(cluster: RayCluster, folder: Path, machines: int, load: str) -> dict[str, list[float]]:
    """What a search under a load by so many client machines shows in each repeat, by metric."""
    suite = folder / "suite.toml"
    suite.write_text(SUITE.format(repeats=REPEATS, machines=machines, load=load))
    done = cluster.run(
        "run", str(suite), "--on", f"ray://{cluster.address}", "--out", str(folder / "runs"),
        "--allow-exposed", "--no-report",
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, list[float]] = {}
    for row in Run(Path(done.stdout.strip().splitlines()[-1])).metrics().to_pylist():
        if row["phase"] == "search":
            found.setdefault(row["metric"], []).append(row["value"])
    return found


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    groups: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="r-") as name:
        folder = Path(name)
        cluster = RayCluster(3, folder / "t")
        try:
            open_loop = "rates = [300]\nduration_s = 8.0"
            one, two = (measured(cluster, folder, machines, open_loop) for machines in (1, 2))
            for metric, unit in (
                ("latency_p50", "us"),
                ("latency_p99", "us"),
                ("recall_mean", "1"),
            ):
                title = f"300/s from two client machines, {metric}"
                bench.add(harness.compare(title, unit, two[metric], one[metric], baseline=BASELINE))
            for host in cluster.hosts[1:]:
                group = make_groups(Limits(cpus=QUOTA), group_name())
                groups.extend(group)
                for pid in cluster.processes(host):
                    for part in group:
                        (part / "cgroup.procs").write_text(str(pid))
            closed_loop = "clients = [8]\nduration_s = 5.0"
            one, two = (measured(cluster, folder, machines, closed_loop) for machines in (1, 2))
            times = [[1e6 / qps for qps in found["qps"]] for found in (two, one)]
            title = f"two client machines with {QUOTA} processors each, time per request"
            bench.add(harness.compare(title, "us", *times, baseline=BASELINE, goal=0.6))
        finally:
            cluster.close()
            remove(groups)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
