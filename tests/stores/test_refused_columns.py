"""Columns that a store cannot keep are refused when the plan is made, in one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vectrial.model.capabilities import NoParams
from vectrial.model.context import fields_of
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import Unsupported
from vectrial.model.metric import Metric
from vectrial.model.refusals import refuse
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.lucene.elasticsearch import Elasticsearch
from vectrial.stores.memory import MemoryStore
from vectrial.stores.milvus.store import Milvus
from vectrial.stores.postgres import sql


def dataset(**columns: object) -> Dataset:
    vectors = np.ones((3, 2), np.float32)
    source = Provenance("made", "none", "")
    metadata = pa.table(columns)
    return Dataset("d", Metric.L2, vectors, np.arange(3), vectors, "", source, metadata)


def test_what_columns_hold_is_known_to_the_plan() -> None:
    fields = fields_of(dataset(a=[1, None, 3], id=["é" * 40_000, "", None], b=[1.5, 2.0, 3.0]))
    assert fields == (
        Field("a", FieldType.INT, missing=True),
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
