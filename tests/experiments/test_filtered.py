"""Search under filters: the condition that hits the share wanted, and who is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vectrial.distance import Metric
from vectrial.errors import Unsupported
from vectrial.experiments.base import Data
from vectrial.experiments.filtered import Filtered, condition
from vectrial.filters import Eq, Range, evaluate
from vectrial.load.lane import Lane
from vectrial.load.searchers import searchers
from vectrial.stores.arrow import batch_of
from vectrial.stores.base import Capabilities, Field, FieldType, Index, NoParams, Returning, Schema
from vectrial.stores.memory import MemoryStore

FLAT = Index("flat", NoParams())
NUMBER = Field("number", FieldType.INT)


def data(*fields: Field, own: frozenset[str] | None = None) -> Data:
    return Data(Schema(4, Metric.L2, fields), own)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_the_condition_keeps_nearly_the_share_wanted(share: float) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "coarse": rng.integers(0, 3, 5_000),
            "fine": rng.permutation(5_000),
            "word": ["same"] * 5_000,
        }
    )
    where = condition(table, share)
    assert isinstance(where, Range)
    assert where.field == "fine"
    assert evaluate(where, table).mean() == pytest.approx(share, rel=0.01)


def test_without_numbers_it_is_equality_with_the_nearest_value() -> None:
    table = pa.table({"word": ["a"] * 70 + ["b"] * 25 + ["c"] * 4 + [None]})
    assert condition(table, 0.5) == Eq("word", "a")
    assert condition(table, 0.2) == Eq("word", "b")
    assert condition(table, 0.001) == Eq("word", "c")


def test_missing_values_and_ties_count_as_what_they_are() -> None:
    table = pa.table({"n": pa.array([None] * 50 + [1] * 30 + [2] * 20, pa.int64())})
    assert condition(table, 0.29) == Range("n", lte=1)
    assert condition(table, 0.5) == Range("n", lte=2)


def refused(experiment: Filtered, given: Data, lane: Lane = Lane.EMBEDDED) -> list[str]:
    reasons = []
    asked = experiment.on(given)
    for point in asked.points(MemoryStore, FLAT, 100):
        try:
            asked.refuse_point(MemoryStore, FLAT, given, lane, point)
        except Unsupported as error:
            reasons.append(f"{point['selectivity']}: {error}")
    return reasons


def test_own_filters_are_used_where_there_are_some() -> None:
    shares = [0.1]
    experiment = Filtered(selectivities=shares)  # type: ignore[arg-type]
    plain, own = data(NUMBER), data(NUMBER, own=frozenset({"eq"}))
    for given, wanted in ((plain, [1.0, 0.1]), (own, [1.0, 0.1, "own"])):
        points = experiment.on(given).points(MemoryStore, FLAT, 100)
        assert [point["selectivity"] for point in points] == wanted
        assert refused(experiment, given) == []
    (reason,) = refused(Filtered(selectivities=shares, own=True), plain)  # type: ignore[arg-type]
    assert reason.startswith("own: the dataset has no filter")


def test_without_metadata_only_the_search_without_filter_is_left() -> None:
    reasons = refused(Filtered(), data())
    assert len(reasons) == 3
    assert all("no metadata" in reason for reason in reasons)


def test_a_store_without_filters_is_refused_whole() -> None:
    class Unfiltered(MemoryStore):
        capabilities = Capabilities(
            scores=MemoryStore.capabilities.scores, indexes=MemoryStore.capabilities.indexes
        )

    with pytest.raises(Unsupported, match="no search under a filter"):
        Filtered().points(Unfiltered, FLAT, 10)


def test_each_query_has_the_searcher_of_its_filter(tmp_path: Path) -> None:
    schema = Schema(2, Metric.L2, (NUMBER,))
    store = MemoryStore(tmp_path)
    store.create(schema, FLAT)
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    store.insert(batch_of(schema, np.arange(6), vectors, {"number": [0, 1, 0, 1, 0, 1]}))
    where = [Eq("number", 1), Eq("number", 0), Eq("number", 1)]
    made = searchers(store, Returning.IDS, 6, NoParams(), where)
    assert not callable(made)
    assert made[0] is made[2]
    found = [sorted(search(vectors[0])[0].tolist()) for search in made]
    assert found == [[1, 3, 5], [0, 2, 4], [1, 3, 5]]
