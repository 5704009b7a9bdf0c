"""Columns that a store cannot keep are refused when the plan is made, in one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from vectrial.datasets.inspect import extreme_norms
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import fields_of
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import Unsupported
from vectrial.model.metric import Metric
from vectrial.model.refusals import refuse, refuse_filters_on, refuse_k, refuse_rows
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.duckdb import DuckDB
from vectrial.stores.faiss import FaissStore
from vectrial.stores.lancedb.store import LanceDB
from vectrial.stores.lucene.elasticsearch import Elasticsearch
from vectrial.stores.memory import MemoryStore
from vectrial.stores.milvus.store import Milvus
from vectrial.stores.postgres import sql
from vectrial.stores.postgres.store import PgVector
from vectrial.stores.qdrant.edge import QdrantEdge
from vectrial.stores.redis.search import RedisSearch
from vectrial.stores.sqlite.vec import SqliteVecStore
from vectrial.stores.weaviate.store import Weaviate


def dataset(**columns: object) -> Dataset:
    vectors = np.ones((3, 2), np.float32)
    source = Provenance("made", "none", "")
    metadata = pa.table(columns)
    return Dataset("d", Metric.L2, vectors, np.arange(3), vectors, "", source, metadata)


def test_what_columns_hold_is_known_to_the_plan() -> None:
    fields = fields_of(dataset(a=[1, None, 3], id=["é" * 40_000, "", None], b=[1.5, 2.0, 3.0]))
    assert fields == (
        Field("a", FieldType.INT, missing=True, largest=3),
        Field("id", FieldType.STRING, missing=True, longest=80_000),
        Field("b", FieldType.FLOAT),
    )


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"year": [1, None, 3]}, "milvus keeps no missing values, as column 'year' has"),
        ({"body": ["x" * 70_000] * 3}, "milvus keeps texts of at most 65,535 bytes, and column"),
        ({f"c{at}": [1, 2, 3] for at in range(63)}, "milvus keeps at most 62 metadata columns"),
    ],
)
def test_limits_of_a_store(columns: dict[str, object], said: str) -> None:
    schema = Schema(2, Metric.L2, fields_of(dataset(**columns)))
    with pytest.raises(Unsupported, match=said) as refused:
        refuse(Milvus, schema)
    assert "--keep" in str(refused.value)
    refuse(MemoryStore, schema)


def test_a_text_that_a_store_cannot_hold_is_named_with_its_row() -> None:
    fields = fields_of(dataset(body=["a", "b\0c", "d"]))
    assert fields == (Field("body", FieldType.STRING, longest=3, nul_row=1),)
    with pytest.raises(Unsupported, match=r"no text with a U\+0000, as column 'body' has in row 1"):
        refuse(PgVector, Schema(2, Metric.L2, fields))
    refuse(MemoryStore, Schema(2, Metric.L2, fields))


@pytest.mark.parametrize(
    ("store", "column", "said"),
    [
        (QdrantEdge, [1, -(2**63), 3], "up to 9,007,199,254,740,992 .* as column 'x' has"),
        (RedisSearch, [1, 2**53 + 1, 3], r"\(9,007,199,254,740,993\) in filters, as column 'x'"),
        (Weaviate, ["a", None, "b\u00a0"], r"white space .* \(row 2\) in filters, as column 'x'"),
    ],
)
def test_values_that_a_filter_does_not_tell_apart(
    store: type[Store], column: list[object], said: str
) -> None:
    """Of which searches without filters know nothing."""
    fields = fields_of(dataset(x=column))
    with pytest.raises(Unsupported, match=said):
        refuse_filters_on(store, fields)
    refuse(store, Schema(2, Metric.L2, fields))
    refuse_filters_on(MemoryStore, fields)
    with pytest.raises(Unsupported, match="weaviate keeps whole numbers up to 9,007,199"):
        refuse(Weaviate, Schema(2, Metric.L2, fields_of(dataset(x=[1, 2**53 + 1, 3]))))
    refuse_filters_on(store, fields_of(dataset(x=[-(2**53), 0, 2**53], y=["a b"] * 3)))


@pytest.mark.parametrize("store", [FaissStore, LanceDB])
def test_codes_that_too_few_rows_cannot_train(store: type[Store]) -> None:
    build = store.capabilities.indexes["ivf_pq"].build
    refuse_rows(store, Index("ivf_pq", build.model_validate({"nbits": 8})), 256)
    refuse_rows(store, Index("ivf_pq", build.model_validate({"nbits": 4})), 16)
    with pytest.raises(Unsupported, match="an index 'ivf_pq' of at least 256 rows, not 255"):
        refuse_rows(store, Index("ivf_pq", build.model_validate({"nbits": 8})), 255)


def test_vectors_and_answers_that_are_too_long() -> None:
    hnsw = Index("hnsw", PgVector.capabilities.indexes["hnsw"].build())
    with pytest.raises(
        Unsupported, match=r"up to 2,000 dimensions as 'hnsw'.*\(use the index flat"
    ):
        refuse(PgVector, Schema(3_072, Metric.L2), hnsw)
    refuse(PgVector, Schema(2_000, Metric.L2), hnsw)
    refuse(PgVector, Schema(3_072, Metric.L2), Index("flat", NoParams()))
    with pytest.raises(Unsupported, match="up to 16,000 dimensions; these have 20,000"):
        refuse(PgVector, Schema(20_000, Metric.L2))
    with pytest.raises(Unsupported, match="at most 4,096 rows, not 5,000"):
        refuse_k(SqliteVecStore, 5_000)
    refuse_k(SqliteVecStore, 4_096)


def test_lucene_has_no_longer_terms() -> None:
    schema = Schema(2, Metric.L2, (Field("body", FieldType.STRING, longest=32_767),))
    with pytest.raises(Unsupported, match="at most 32,766 bytes"):
        refuse(Elasticsearch, schema)
    refuse(Elasticsearch, Schema(2, Metric.L2, (Field("b", FieldType.STRING, longest=32_766),)))


def test_long_texts_get_another_index_in_postgresql() -> None:
    fields = (Field("a", FieldType.STRING, longest=100), Field("b", FieldType.STRING, longest=9000))
    statements = list(sql.build("t", Schema(2, Metric.L2, fields), NoParams()))
    assert "CREATE INDEX IF NOT EXISTS t_f0 ON t (f0)" in statements
    assert "CREATE INDEX IF NOT EXISTS t_f1 ON t USING hash (f1)" in statements


def test_vectors_whose_direction_a_store_loses() -> None:
    """Qdrant leaves a vector as it is whose squares add up to less than float32's epsilon."""
    short = Schema(2, Metric.COSINE, norms=(3e-4, 1.0))
    with pytest.raises(Unsupported, match=r"shorter than 0.00035; the shortest has 0.0003"):
        refuse(QdrantEdge, short)
    refuse(MemoryStore, short)
    refuse(QdrantEdge, replace(short, norms=(4e-4, 1e14)))
    refuse(QdrantEdge, replace(short, norms=None))
    refuse(QdrantEdge, replace(short, metric=Metric.L2))
    with pytest.raises(Unsupported, match=r"longer than 3e\+09; the longest has 1e\+14"):
        refuse(DuckDB, replace(short, norms=(4e-4, 1e14)))


def test_the_extreme_lengths_are_known_to_the_plan() -> None:
    rows = np.array([[3, 4], [0.6, 0.8]], np.float32)
    queries = np.array([[1, 0], [0, 2e-4]], np.float32)
    made = replace(dataset(), vectors=rows, queries=queries)
    assert extreme_norms(made) is None, "nobody looked"
    made = replace(made, facts={"norms": {"min": 1.0, "max": 5.0}})
    assert extreme_norms(made) == pytest.approx((2e-4, 5.0))
    assert extreme_norms(replace(made, queries=2 * rows)) == pytest.approx((1.0, 10.0))
