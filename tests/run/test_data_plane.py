"""Loading, filters, what is returned and single operations, on a real server through both lanes."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_suite import EASY, Vectrial

from vectrial.results.reader import RunReader
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program

pytestmark = [pytest.mark.slow, pytest.mark.server("weaviate")]

SUITE = """
name = "plane"
repeats = 1
k = 10
durability = "buffered"
[[datasets]]
name = "clustered-16-2k-filtered"
rows = 1500
queries = 40
[[stores]]
store = "weaviate"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
lane = ["native", "sdk"]
[[stores]]
store = "memory"
index = "flat"
durability = "default"
[[experiments]]
experiment = "ingest"
checkpoints = [1.0]
concurrency = [1, 2]
batch_rows = 300
probes = 3
[[experiments]]
experiment = "search"
search = { ef_search = 64 }
returns = ["ids", "metadata", "vectors"]
min_s = 0.1
warmup_queries = 5
[[experiments]]
experiment = "filtered"
search = { ef_search = 64 }
selectivities = [0.05]
predicates = ["column", "aligned"]
checks = 20
min_s = 0.1
warmup_queries = 5
[[experiments]]
experiment = "crud"
samples = 20
"""


def test_the_data_plane_on_both_lanes(
    tmp_path: Path, variables: dict[str, str], vectrial: Vectrial
) -> None:
    variables["VECTRIAL_WEAVIATE_BIN"] = str(program(WEAVIATE))
    suite = tmp_path / "plane.toml"
    suite.write_text(SUITE + EASY)
    done = vectrial("run", str(suite))
    assert done.returncode == 0, done.stderr
    with RunReader(Path(done.stdout.strip())) as run:
        wrong = run.rows("select experiment, lane, reason from trial where status <> 'ok'")
        reasons = {row["experiment"]: row["reason"] for row in wrong}
        assert reasons.keys() == {"ingest", "filtered"}, wrong
        assert "one client" in reasons["ingest"]
        assert reasons["filtered"] == "weaviate filters by no column without an index"
        rows = run.measured()
    loads = [m for m in rows if m["phase"] == "load" and m["metric"] == "count"]
    kinds = {(m["store"], m["lane"], m["trial_params"]["concurrency"]) for m in loads}
    assert kinds == {
        ("memory", "embedded", 1),
        *(("weaviate", lane, callers) for lane in ("native", "sdk") for callers in (1, 2)),
    }
    assert {m["value"] for m in loads} == {1497}
    told = {m["value"] for m in rows if m["phase"] == "ingest" and m["metric"] == "ineffective"}
    assert told == {0}
    swept = {
        (m["store"], m["lane"], m["trial_params"]["returns"]): m["value"]
        for m in rows
        if m["experiment"] == "search" and m["metric"] == "recall_mean"
    }
    assert len(swept) == 9
    assert min(swept.values()) > 0.9
    under = [m for m in rows if m["experiment"] == "filtered"]
    told = {
        (m["store"], m["lane"], m["phase_params"]["predicate"], m["metric"]): m["value"]
        for m in under
    }
    arms = {(m["store"], m["phase_params"]["payload_index"]) for m in under}
    assert arms == {("weaviate", "on"), ("memory", "fixed")}
    for store, lane in (("weaviate", "native"), ("weaviate", "sdk"), ("memory", "embedded")):
        assert told[store, lane, "column", "selectivity"] == pytest.approx(0.05, rel=0.1)
        for predicate in ("none", "column", "own", "aligned"):
            assert told[store, lane, predicate, "recall_mean"] > 0.9, predicate
        assert told[store, lane, "aligned", "selectivity"] == pytest.approx(75 / 1500)
        assert told[store, lane, "aligned", "filter_correlation"] > 0.3
        for predicate in ("column", "own", "aligned"):
            assert told[store, lane, predicate, "violations"] == 0
            assert told[store, lane, predicate, "checked_answers"] >= 20, "the timed ones, too"
    changed = [m for m in rows if m["experiment"] == "crud" and m["metric"] == "verified"]
    by_lane = {(m["lane"], m["phase"]): m["value"] for m in changed if m["store"] == "weaviate"}
    for lane in ("native", "sdk"):
        for phase in ("create", "update", "delete"):
            assert by_lane[lane, phase] == 20
