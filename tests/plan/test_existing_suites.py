"""Collections that were there already: what a plan measures on them, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command_calls import call
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.existing import (
    Attaching,
    Existing,
    IntegerKeys,
    NewKeys,
    NumberedKeys,
    are_integers,
)
from vectrial.model.lane import Lane
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType
from vectrial.plan.checks import check_existing_supported
from vectrial.plan.model import DatasetShape, Plan
from vectrial.plan.plan import make_plan
from vectrial.stores import registry
from vectrial.suite.model import parse_suite

SUITE = """
name = "t"
repeats = 1
[[datasets]]
name = "d"
[[stores]]
store = "STORE"
index = "hnsw"
params = { m = 12 }
lane = ["native", "sdk"]
nodes = NODES
existing = { WHICH }
[[experiments]]
"""
SEARCH = 'experiment = "search"\nsearch = { ef_search = 50 }\n'


def plan_of(
    experiment: str,
    store: str = "pgvector",
    nodes: int = 1,
    existing: str = 'collection = "products", id = "sku"',
    **shape: Any,
) -> Plan:
    suite = SUITE.replace("STORE", store).replace("NODES", str(nodes)).replace("WHICH", existing)
    return make_plan(
        parse_suite(suite + experiment, "t.toml"),
        where="t.toml",
        load_store=registry.load,
        shape_of=lambda ref: DatasetShape(ref.name, 1000, 8, Metric.L2, **shape),
        known_stores=registry.names(),
    )


def reasons(plan: Plan) -> str:
    return " | ".join(refusal.reason for refusal in plan.refusals)


def test_a_search_is_measured_and_says_what_is_not_known() -> None:
    plan = plan_of(SEARCH, queries_are_rows=True)
    assert [trial.row.lane for trial in plan.trials] == ["native", "sdk"]
    (job,) = plan.jobs
    assert job.existing is not None
    assert (job.existing.collection, job.existing.id) == ("products", "sku")
    assert job.durability is None
    row = plan.trials[0].row
    assert row.index_params == {"m": 12}, "nothing is claimed that is not known"
    assert "m=12" in job.index_label
    assert "workers" not in job.index_label
    text = " ".join(row.differences)
    assert "products was there already and is only read" in text
    assert "each finds itself first" in text
    assert "each finds itself" not in " ".join(plan_of(SEARCH).trials[0].row.differences)


def test_a_condition_is_a_part_of_what_is_measured() -> None:
    """Trials of runs from before there were conditions keep their keys."""
    plan, without = (
        plan_of(SEARCH, existing=f'collection = "products", id = "sku", where = "{where}"')
        for where in ("deleted_at IS NULL", "")
    )
    assert plan.jobs[0].existing is not None
    assert plan.jobs[0].existing.where == "deleted_at IS NULL"
    assert "deleted_at IS NULL" in " ".join(plan.trials[0].row.differences)
    keys = [[trial.row.key for trial in one.trials] for one in (plan, without, plan_of(SEARCH))]
    assert keys[0] != keys[1]
    assert keys[1] == keys[2]


def test_a_store_that_takes_no_condition() -> None:
    can = registry.load("pgvector").capabilities

    class Plain(registry.load("pgvector")):  # type: ignore[misc]
        capabilities = replace(can, existing=Attaching())

    shape = DatasetShape("d", 1000, 8, Metric.L2)
    check_existing_supported(Plain, Existing("products"), shape, Lane.SDK, 1)
    with pytest.raises(Unsupported, match="takes no condition"):
        check_existing_supported(Plain, Existing("products", where="price < 3"), shape, Lane.SDK, 1)


def test_the_key_of_a_trial_names_the_collection() -> None:
    keys = {trial.row.key for trial in plan_of(SEARCH).trials}
    plan = plan_of(SEARCH, existing='collection = "others", id = "sku"')
    assert not keys & {trial.row.key for trial in plan.trials}


@pytest.mark.parametrize("name", ["ingest", "crud", "mixed", "durability", "storage", "tenants"])
def test_experiments_that_write_are_refused(name: str) -> None:
    plan = plan_of(f'experiment = "{name}"\n')
    assert plan.trials == []
    assert "only read" in reasons(plan) or "measured through" in reasons(plan)


def test_only_conditions_on_columns_that_are_there_are_measured() -> None:
    fields = (Field("price", FieldType.FLOAT), Field("sku", FieldType.STRING))
    plan = plan_of('experiment = "filtered"\n', fields=fields, own_ids="sku")
    assert {trial.row.lane for trial in plan.trials} == {"sdk"}
    assert all("selectivity" in trial.point for trial in plan.trials)
    assert "a collection of its own" in reasons(plan)


def test_what_a_collection_does_not_have_is_refused() -> None:
    assert "ids that are integers" in reasons(plan_of(SEARCH, own_ids="sku"))
    assert "all of its rows" in reasons(plan_of(SEARCH, part=True))
    sizes = plan_of('experiment = "search"\nsizes = [0.5]\n')
    assert sizes.trials == []
    assert "only read" in reasons(sizes)
    can = registry.load("pgvector").capabilities

    class Without(registry.load("pgvector")):  # type: ignore[misc]
        capabilities = replace(can, existing=None)

    shape = DatasetShape("d", 1000, 8, Metric.L2)
    with pytest.raises(Unsupported, match="measures no collection"):
        check_existing_supported(Without, Existing("products"), shape, Lane.SDK, 1)
    searched = 'experiment = "search"\n'
    assert "has the nodes" in reasons(plan_of(searched, store="weaviate", nodes=2))


def test_a_setting_of_the_collection_is_left_as_it_is() -> None:
    plan = plan_of(SEARCH, store="weaviate")
    assert plan.trials == []
    assert "ef_search is a setting of the collection" in reasons(plan)
    assert plan_of('experiment = "search"\n', store="weaviate").trials


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--collection", "x"), "--existing STORE"),
        (("--existing", "pgvector"), "--collection products"),
        (("--existing", "hnswlib", "--collection", "x"), "no collection that is there"),
        (("--existing", "pgvector", "--collection", "x", "suite.toml"), "exclude each other"),
        (("--existing", "pgvectr", "--collection", "x"), "pgvector"),
        (("--existing", "pgvector", "--collection", "x"), "VECTRIAL_POSTGRES_ADDRESS"),
    ],
)
def test_wrong_input_is_explained(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VECTRIAL_POSTGRES_ADDRESS", raising=False)
    done = call("run", *words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


@given(st.lists(st.text(), unique=True, min_size=1), st.integers(0, 2**62))
def test_texts_are_numbered_and_found_again(texts: list[str], first: int) -> None:
    ids = np.arange(first, first + len(texts), dtype=np.int64)
    keys = NumberedKeys(pa.chunked_array([texts], pa.string()), ids)
    assert keys.ids(texts).tolist() == ids.tolist()
    assert keys.keys(ids) == texts
    assert keys.ids(["no such text" * 9]).tolist() == [-1]
    assert keys.keys([first - 1]) == []


def test_new_texts_are_numbered_as_they_come() -> None:
    keys = NewKeys()
    assert keys.ids(["b", "a"]).tolist() == [0, 1]
    assert keys.ids(["c"]).tolist() == [2]
    assert keys.keys([2, 0]) == ["c", "b"]


def test_integers_are_ids_as_they_are() -> None:
    assert IntegerKeys().ids(["7", 8]).tolist() == [7, 8]
    with pytest.raises(StoreError, match="no 64-bit integer"):
        IntegerKeys().ids(["7a"])
    with pytest.raises(StoreError, match="no 64-bit integer"):
        IntegerKeys().ids([2**63])


@given(st.integers(0, 2**63 - 1))
def test_digits_are_told_from_texts(number: int) -> None:
    assert are_integers([number, str(number)])
    assert not are_integers([str(number), f"0{number}"])
    assert not are_integers([-1 - number])
    assert not are_integers([number, "x"])
