"""FAISS' ivf_pq, which is trained when it is built: on any number of rows, in blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vectrial.model.capabilities import Index
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.stores import faiss as driver
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.faiss import FaissIvfPqBuild, FaissIvfPqSearch, FaissStore


@pytest.mark.parametrize("rows", [300, 2000])
def test_fewer_rows_than_cells_have_one_each(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate builds the index that is measured on two thousand rows."""
    monkeypatch.setattr(driver, "_ADDED_ROWS", 700)
    vectors = np.random.default_rng(1).standard_normal((rows, 16)).astype(np.float32)
    ids = np.arange(rows, dtype=np.int64) * 3 + 1
    schema = Schema(16, Metric.L2)
    store = FaissStore(tmp_path)
    store.create(schema, Index("ivf_pq", FaissIvfPqBuild(nlist=4096, m_pq=8)))
    store.insert(batch_of(schema, ids, vectors, {}))
    store.delete(ids[:10])
    store.build()
    assert store.count() == rows - 10
    search = store.searcher(10, FaissIvfPqSearch(nprobe=4096))
    found = [search(vector)[0] for vector in vectors[10:60]]
    assert sum(own in hits for own, hits in zip(ids[10:60], found, strict=True)) >= 40
    assert not {int(i) for hits in found for i in hits} & set(ids[:10].tolist())
    store.close()
