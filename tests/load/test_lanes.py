"""The lanes behind one function: planned, keyed, measured and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from null_store import ADDRESS, NullStore

from vectrial.datasets import catalog, library
from vectrial.experiments.base import fields_of
from vectrial.load.null_server import null_server
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.stores import registry
from vectrial.stores.base import Store
from vectrial.suite.model import parse_suite
from vectrial.suite.plan import DatasetShape, Plan, make_plan
from vectrial.suite.runner import run_plan

SUITE = """
name = "lanes"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "null"
index = "flat"
[[experiments]]
experiment = "recall_sweep"
min_s = 0.1
[[experiments]]
experiment = "concurrency"
clients = [4]
duration_s = 0.2
[[experiments]]
experiment = "footprint"
"""
DATASET = "clustered-16-2k"


def load_store(name: str) -> type[Store]:
    return NullStore if name == "null" else registry.load(name)


def plan_of(text: str) -> Plan:
    entry = catalog.entry(DATASET)
    return make_plan(
        parse_suite(text, "t.toml"),
        where="t.toml",
        load_store=load_store,
        shape_of=lambda ref: DatasetShape(ref.name, 2000, entry.dim, entry.metric, entry.fields),
        known_stores=registry.names(),
    )


def lanes(plan: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for trial in plan.trials:
        found.setdefault(trial.row.experiment, []).append(trial.row.lane)
    return found


def test_a_server_store_is_searched_natively_and_loaded_by_its_client() -> None:
    assert lanes(plan_of(SUITE)) == {
        "recall_sweep": ["native"],
        "concurrency": ["native"],
        "footprint": ["sdk"],
    }


def test_an_embedded_store_is_embedded() -> None:
    plan = plan_of(SUITE.replace('"null"', '"memory"'))
    assert {trial.row.lane for trial in plan.trials} == {"embedded"}


def test_lanes_of_one_entry_share_a_load_and_have_keys_of_their_own() -> None:
    both = plan_of(SUITE.replace('index = "flat"', 'index = "flat"\nlane = ["native", "sdk"]'))
    (job,) = both.jobs
    assert lanes(both)["recall_sweep"] == ["native", "sdk"]
    assert len({trial.row.key for trial in job.trials}) == 5


@pytest.mark.parametrize(
    ("store", "lane", "why"),
    [
        ("memory", "native", "called in the process that holds its data"),
        ("memory", "sdk", "called in the process that holds its data"),
        ("null", "embedded", "it is a server"),
    ],
)
def test_a_lane_that_a_store_lacks_is_refused_with_the_reason(
    store: str, lane: str, why: str
) -> None:
    text = SUITE.replace('"null"', f'"{store}"')
    plan = plan_of(text.replace('index = "flat"', f'index = "flat"\nlane = "{lane}"'))
    assert set(lanes(plan)) == {"footprint"}
    assert {refusal.row.experiment for refusal in plan.refusals} == {"recall_sweep", "concurrency"}
    for refusal in plan.refusals:
        assert why in refusal.reason
        assert "lane = " in refusal.reason


class Silent:
    """Nobody looks on."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder, with a null server where the store's native lane leads."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    dataset = catalog.ensure(DATASET, lambda *_: None)
    assert fields_of(library.load(DATASET)) == fields_of(dataset)
    with null_server("grpc") as server:
        monkeypatch.setenv(ADDRESS, f"{server.host}:{server.port}")
        yield tmp_path / "run"


def measured(folder: Path, text: str) -> list[TrialRecord]:
    with RunWriter(folder) as writer:
        run_plan(plan_of(text), writer, Silent())
    with RunReader(folder) as run:
        return run.measured()


def test_experiments_run_unchanged_on_the_native_lane(folder: Path) -> None:
    rows = measured(folder, SUITE)
    figures = {(row["experiment"], row["metric"]): row["value"] for row in rows}
    assert {row["lane"] for row in rows if row["phase"] == "search"} == {"native"}
    assert figures["recall_sweep", "count"] % 50 == 0, "every query weighs the same"
    assert figures["recall_sweep", "qps"] > 0
    assert figures["concurrency", "concurrency"] == 4
    assert 0 < figures["concurrency", "littles_law"] <= 1.000001
    for experiment in ("recall_sweep", "concurrency"):
        assert figures[experiment, "errors"] == 0
        assert figures[experiment, "warmup_count"] == (100 if experiment == "recall_sweep" else 400)
        assert 0 <= figures[experiment, "recall_mean"] < 0.2, "the null server answers nonsense"
        assert figures[experiment, "cpu_us_per_op"] > 0
    assert all(row["valid"] for row in rows if row["value"] is not None), [
        row["reason"] for row in rows if not row["valid"]
    ]
