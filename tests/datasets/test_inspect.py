import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from vectrial.datasets import inspect
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.filters import Eq
from vectrial.model.metric import Metric

RNG = np.random.default_rng(5)


def dataset(x: Any, q: Any, metric: Metric = Metric.L2, **parts: Any) -> Dataset:
    x, q = (np.ascontiguousarray(a, np.float32) for a in (x, q))
    return Dataset("t", metric, x, np.arange(len(x)), q, "f", Provenance("", "", ""), **parts)


def test_duplicates_are_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.standard_normal((200, 5))
    x[150] = x[3]
    x[151] = x[3]
    x[199] = x[70]
    x[0], x[1] = 0.0, -0.0
    q = np.concatenate([x[3:5], RNG.standard_normal((4, 5))])
    expected = {"rows": 4, "groups": 3, "queries": 2, "repeated_queries": 0}
    assert inspect.duplicates(dataset(x, q)) == expected
    monkeypatch.setattr(inspect, "_BLOCK_BYTES", 7 * 20)
    assert inspect.duplicates(dataset(x, q)) == expected


def test_rows_that_only_share_a_hash_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "_row_hashes", lambda block: np.zeros(len(block), np.uint64))
    x = RNG.standard_normal((20, 5))
    assert set(inspect.duplicates(dataset(x, x[1:2] + 1)).values()) == {0}


def test_queries_that_are_there_twice_are_counted() -> None:
    """Trap 000-11: 868 anomalies are 434, each twice. Under another filter it is another query."""
    x, q = RNG.standard_normal((20, 5)), RNG.standard_normal((434, 5))
    assert inspect.duplicates(dataset(x, np.concatenate([q, q])))["repeated_queries"] == 434
    wheres = tuple(Eq("class", at) for at in range(868))
    assert inspect.repeated_queries(dataset(x, np.concatenate([q, q]), filters=wheres)) == 0


def test_many_small_integer_rows_agree_with_counting() -> None:
    x = RNG.integers(0, 3, (3000, 6))
    q = RNG.integers(0, 3, (50, 6))
    distinct = np.unique(x, axis=0)
    found = inspect.duplicates(dataset(x, q))
    assert found["rows"] == len(x) - len(distinct)
    assert found["queries"] == sum((distinct == row).all(axis=1).any() for row in q)


def test_norms() -> None:
    x = np.diag([1.0, 2.0, 3.0, 10.0])
    expected = {"min": 1.0, "median": 2.5, "max": 10.0, "normalised": False}
    assert inspect.norms(dataset(x, x[:1])) == expected
    assert inspect.norms(dataset(x / x.max(axis=1)[:, None], x[:1]))["normalised"] is True


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("low", [2, 5])
def test_intrinsic_dimension_of_a_subspace(metric: Metric, low: int) -> None:
    # Cosine sees directions only: one dimension less than the subspace has.
    span = low + (metric is Metric.COSINE)
    basis = np.linalg.qr(RNG.standard_normal((40, span)))[0]
    x = RNG.standard_normal((6000, span)) @ basis.T
    facts = inspect.geometry(dataset(x[:-100], x[-100:], metric))
    assert facts["intrinsic_dimension"]["median"] == pytest.approx(low, rel=0.15)


def test_intrinsic_dimension_by_hand() -> None:
    near = np.array([[0.0, 1.0, 2.0, 4.0]])
    expected = 2 / (np.log(4 / 1) + np.log(4 / 2))
    assert inspect.intrinsic_dimension(near)["median"] == pytest.approx(expected)
    assert inspect.intrinsic_dimension(np.zeros((3, 4)))["median"] is None


def test_a_point_is_not_its_own_neighbour() -> None:
    ids = np.array([[4, 7, 1], [9, 8, 2]])
    distances = np.array([[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]])
    found = inspect._without_itself(ids, distances, np.array([4, 3]))
    np.testing.assert_array_equal(found, [[0.5, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("metric", list(Metric))
def test_duplicates_do_not_lower_the_intrinsic_dimension(metric: Metric) -> None:
    x = RNG.standard_normal((3000, 6))
    alone = inspect.geometry(dataset(x, x[:5] + 1, metric))["intrinsic_dimension"]["median"]
    doubled = dataset(np.concatenate([x, x]), x[:5] + 1, metric)
    found = inspect.geometry(doubled)["intrinsic_dimension"]["median"]
    assert found == pytest.approx(alone, rel=0.2)


def test_queries_like_the_rows_are_not_shifted_and_others_are() -> None:
    x = RNG.standard_normal((3000, 10))
    like = inspect.geometry(dataset(x, RNG.standard_normal((400, 10))))["shift"]
    assert not like["shifted"]
    assert like["p_value"] > 1e-3
    assert like["median_ratio"] == pytest.approx(1, rel=0.1)
    away = inspect.geometry(dataset(x, RNG.standard_normal((400, 10)) + 3))["shift"]
    assert away["shifted"]
    assert away["median_ratio"] > 1.5


def test_more_rows_than_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "_MAX_ROWS", 500)
    x = RNG.standard_normal((2000, 3))
    facts = inspect.geometry(dataset(x, x[:50] + 0.1))
    assert facts["intrinsic_dimension"]["corpus_rows"] == 500
    assert facts["intrinsic_dimension"]["median"] == pytest.approx(3, rel=0.3)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_tiny_datasets(rows: int) -> None:
    x = RNG.standard_normal((rows, 4))
    facts = inspect.inspect(dataset(x, x[:1] + 1))
    assert json.loads(json.dumps(facts)) == facts


def test_all_rows_equal() -> None:
    facts = inspect.inspect(dataset(np.ones((50, 4)), np.ones((2, 4))))
    assert facts["duplicates"] == {"rows": 49, "groups": 1, "queries": 2, "repeated_queries": 1}
    assert facts["intrinsic_dimension"]["median"] is None
    assert facts["shift"]["median_ratio"] is None
    assert json.loads(json.dumps(facts)) == facts


def test_metadata_columns() -> None:
    table = pa.table(
        {
            "n": pa.array([1, 1, 2, None], pa.int64()),
            "s": ["b", "b", "b", "a"],
            "f": pa.array([None] * 4, pa.float64()),
            "on": [True, False, None, True],
            "nan": [float("nan"), float("nan"), float("-inf"), 1.5],
        }
    )
    facts = inspect.inspect(dataset(np.eye(4), np.eye(4)[:1], metadata=table))["metadata"]
    assert facts["n"]["nulls"] == 1
    assert facts["n"]["top"] == [[1, 2], [2, 1]]
    assert facts["n"]["quantiles"]["1"] == 2
    assert facts["s"] == {"type": "string", "nulls": 0, "distinct": 2, "top": [["b", 3], ["a", 1]]}
    assert facts["f"] == {"type": "double", "nulls": 4, "distinct": 0, "top": []}
    assert facts["on"]["top"] == [[True, 2], [False, 1]]
    assert facts["nan"]["top"][0] == ["NaN", 2]
    assert sorted(facts["nan"]["top"][1:], key=str) == [["-Infinity", 1], [1.5, 1]]
    assert facts["nan"]["quantiles"]["1"] == 1.5
    assert json.dumps(facts, allow_nan=False)
