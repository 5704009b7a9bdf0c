"""Milvus Lite indexes a flushed segment in the background: no file is read half written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vectrial.model.capabilities import Index, NoParams
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of


def test_wait_indexed_does_not_read_an_index_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brute_force = pytest.importorskip("milvus_lite.index.brute_force")
    save = brute_force.BruteForceIndex.save

    def save_slowly(index: Any, path: str) -> None:
        Path(path).touch()
        time.sleep(0.5)
        save(index, path)

    monkeypatch.setattr(brute_force.BruteForceIndex, "save", save_slowly)
    schema = Schema(dim=4, metric=Metric.L2)
    vectors = np.random.default_rng(3).normal(size=(50, 4)).astype(np.float32)
    store = registry.load("milvus-lite")(tmp_path)
    store.create(schema, Index("flat", NoParams()))
    try:
        store.insert(batch_of(schema, np.arange(50), vectors, {}))
        store.flush()
        assert store.wait_indexed()
        assert store.count() == 50
    finally:
        store.drop()
