"""Rows in and out, and changing while others search, on servers, through both lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_suite import EASY, Vectrial

from vectrial.results.reader import RunReader
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program

pytestmark = pytest.mark.slow

SUITE = """
name = "traffic"
repeats = 1
k = 10
batch_rows = 400
[[datasets]]
name = "clustered-16-2k-meta"
queries = 50
[[stores]]
store = "STORE"
index = "hnsw"
params = { m = 8, ef_construction = 60 }
lane = ["native", "sdk"]
[[experiments]]
experiment = "transport"
sizes = [1000]
clients = [2]
min_s = 0.1
mixed_s = 0.5
mixed_rows = 50
[[experiments]]
experiment = "mixed"
rates = { search = 10, insert = 4, update = 4, delete = 4 }
duration_s = 3
arrivals = "constant"  # none is due at the very end
clients = 3
search = { ef_search = 200 }
[[experiments]]
experiment = "crud"
samples = 20
"""
#: Arrivals of each kind in the time of `mixed`.
DUE = {"search": 30, "insert": 12, "update": 12, "delete": 12}


@pytest.mark.parametrize(
    "store",
    [pytest.param(name, marks=pytest.mark.server(name)) for name in ("flight", "weaviate")],
)
def test_both_lanes_agree_on_what_came_through(
    store: str, vectrial: Vectrial, tmp_path: Path, variables: dict[str, str]
) -> None:
    if store == "weaviate":
        variables["VECTRIAL_WEAVIATE_BIN"] = str(program(WEAVIATE))
    suite = tmp_path / "traffic.toml"
    suite.write_text(SUITE.replace("STORE", store) + EASY)
    done = vectrial("run", str(suite), "--no-report")
    assert done.returncode == 0, done.stderr
    with RunReader(Path(done.stdout.strip())) as run:
        assert run.rows("select experiment, reason from trial where status = 'failed'") == []
        found = [m for m in run.measured() if m["value"] is not None]
        told = run.rows(
            "select lane, phase.reason as reason from phase join trial using (trial_id)"
            " where phase.name = 'find_by_condition'"
        )

    def values(lane: str, experiment: str, phase: str, metric: str) -> list[Any]:
        named = (lane, experiment, phase, metric)
        keys = ("lane", "experiment", "phase", "metric")
        return [m["value"] for m in found if tuple(m[key] for key in keys) == named]

    for lane in ("native", "sdk"):
        assert values(lane, "transport", "put", "count") == [1000]
        assert values(lane, "transport", "indexed", "count") == [1000]
        for phase in ("get", "mixed", "mixed_get"):
            assert values(lane, "transport", phase, "ineffective") == [0], phase
            assert all(count > 0 for count in values(lane, "transport", phase, "count"))
        missed = 0
        for kind, due in DUE.items():  # one schedule through both lanes
            assert values(lane, "mixed", kind, "errors") == [0], (lane, kind)
            (count,) = values(lane, "mixed", kind, "count")
            (unsent,) = values(lane, "mixed", kind, "unsent")
            assert count + unsent == due, (lane, kind)
            missed += unsent
        # Requests that a busy machine is too late for are not sent; then nothing is judged.
        if not missed:
            assert values(lane, "mixed", "search", "stale_results") == [0]
            (most,) = values(lane, "mixed", "search", "recall_mean")
            (least,) = values(lane, "mixed", "search", "recall_mean_lower")
            assert least <= most
            assert most > 0.9
    # The engine asks for nothing without a vector; the native lane says who asked instead.
    by = {lane: values(lane, "crud", "find_by_condition", "verified") for lane in ("native", "sdk")}
    assert by["native"] == by["sdk"]
    if by["sdk"]:
        assert by["sdk"] == [20]
        (said,) = (row["reason"] for row in told if row["lane"] == "native")
        assert said.startswith("by the store's own client")
