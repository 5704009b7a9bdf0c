"""Experiments that load stores of their own, or look on while one loads, on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy_machine import only_late
from small_suite import EASY, Vectrial

from vectrial.analysis import run_data
from vectrial.results.reader import RunReader
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program

pytestmark = [pytest.mark.slow, pytest.mark.server("weaviate")]

SUITE = """
name = "looked-on"
repeats = 1
k = 10
[placement]
server_memory = "3GiB"
[[datasets]]
name = "clustered-16-2k"
queries = 20
[[stores]]
store = "weaviate"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
[[experiments]]
experiment = "storage"
rows = [1.0]
settle_s = 5
[[experiments]]
experiment = "time_to_searchable"
search = { ef_search = 64 }
[[experiments]]
experiment = "condition"
samples = 10
[[experiments]]
experiment = "transport"
operations = ["export"]
min_s = 0
[[experiments]]
experiment = "search"
sizes = [1.0]
min_s = 0.1
[[experiments]]
experiment = "ingest"
payload_index = ["none", "off", "on"]
[[experiments]]
experiment = "mixed"
operations = 150
search = { ef_search = 64 }
[[experiments]]
experiment = "search_during_build"
search = { ef_search = 64 }
duration_s = 0.3
[[experiments]]
experiment = "unindexed_rows"
unindexed = [0.2]
search = { ef_search = 64 }
duration_s = 0.3
[[experiments]]
experiment = "write_amplification"
settle_s = 0
[[experiments]]
experiment = "memory_ceiling"
search = { ef_search = 64 }
duration_s = 0.3
ceilings = [1.2, 0.01]
[[experiments]]
experiment = "tenants"
isolation = ["collection", "filter"]
tenants = 4
search = { ef_search = 64 }
duration_s = 0.3
[[experiments]]
experiment = "cold_start"
search = { ef_search = 64 }
duration_s = 1
[[experiments]]
experiment = "durability"
outages = ["kill", "out_of_memory"]
count = 1
rows = 200
window_s = 1
"""


def test_they_work_on_a_server(
    vectrial: Vectrial, tmp_path: Path, variables: dict[str, str]
) -> None:
    variables["VECTRIAL_WEAVIATE_BIN"] = str(program(WEAVIATE))
    suite = tmp_path / "looked-on.toml"
    suite.write_text(SUITE + EASY)
    done = vectrial("run", str(suite), "--no-report")
    assert done.returncode == 0, done.stderr
    with RunReader(Path(done.stdout.strip())) as run:
        unmeasured = "status not in ('ok', 'invalid')"
        failed = run.rows(f"select experiment, reason from trial where {unmeasured}")
        # Not every machine lets a process be limited.
        others = [one for one in failed if "in no control group" not in one["reason"]]
        assert others == []
        wrong = run.rows("select name, reason from phase where not valid and name <> 'step'")
        assert [one for one in wrong if not only_late(one["reason"])] == []
        values = [m for m in run.measured() if m["value"] is not None]
    loads = {
        m["phase_params"]["payload_index"]: m["value"]
        for m in values
        if m["phase"] == "arm" and m["metric"] == "ready_s"
    }
    assert loads.keys() == {"none", "off", "on"}
    over = {m["phase_params"]["of"] for m in values if m["metric"] == "ready_overhead"}
    assert over == {"indexes", "columns"}
    found = [m for m in values if m["phase"] == "find" and m["metric"] == "latency_p50"]
    assert {m["phase_params"]["payload_index"] for m in found} == {"on"}
    looks = [m for m in values if m["phase"] == "look" and m["metric"] == "share_found"]
    assert {m["phase_params"]["stage"] for m in looks} >= {"ready"}
    assert looks[-1]["value"] > 0.95  # a graph with m = 8 does not find every row
    recall = [m["value"] for m in values if m["metric"] == "recall_mean"]
    assert min(recall) > 0.95
    exported = [m["value"] for m in values if m["metric"] == "export_rows_per_s"]
    assert exported
    assert exported[0] > 0
    assert {m["value"] for m in values if m["metric"] == "stale_results"} == {0.0}
    building = {m["metric"]: m["value"] for m in values if m["phase"] == "building"}
    assert building["added_rows"] == 400
    assert 0 < building["added_s"] <= building["indexed_s"]
    unindexed = {m["phase"]: m["value"] for m in values if m["metric"] == "unindexed_rows"}
    assert unindexed == {"as_inserted": 0.0, "indexed": 0.0}, "it indexes while it inserts"
    written = [m["value"] for m in values if m["metric"] == "written_bytes"]
    assert written == sorted(written)
    tenants = [m for m in values if m["experiment"] == "tenants"]
    assert {m["phase"] for m in tenants} == {"alone", "beside"}
    assert {m["value"] for m in tenants if m["metric"] == "leaked_rows"} == {0.0}
    starts = {m["phase"]: m["value"] for m in values if m["metric"] == "first_answer_s"}
    assert set(starts) == {"restart"}, "without a disk of its own it is not cold"
    suffered = run_data.load(Path(done.stdout.strip())).select("durability", "outages")
    kinds = {one.params["outage"] for one in suffered}
    assert kinds == ({"kill"} if failed else {"kill", "out_of_memory"})
    for one in suffered:
        assert one.value("outages") == 1, "its server was ended and started again"
        assert (one.value("acknowledged_rows") or 0) > 0
        assert one.value("broken_outages") == one.value("unanswered") == 0
