"""Milvus Lite: a flushed segment is indexed in the background, and a port is used again."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vectrial.model.capabilities import Index, NoParams
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
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


def test_a_file_on_the_port_of_an_earlier_one_has_a_schema_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grpc_server = pytest.importorskip("milvus_lite.adapter.grpc.server")
    start = grpc_server.start_server_in_thread
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(
        grpc_server, "start_server_in_thread", lambda data_dir, **_: start(data_dir, port=port)
    )
    year = Schema(dim=4, metric=Metric.L2, fields=(Field("year", FieldType.INT),))
    for name, schema in (("first", year), ("second", Schema(dim=4, metric=Metric.L2))):
        folder = tmp_path / name
        folder.mkdir()
        store = registry.load("milvus-lite")(folder)
        store.create(schema, Index("flat", NoParams()))
        try:
            columns = {field.name: np.arange(3) for field in schema.fields}
            store.insert(batch_of(schema, np.arange(3), np.eye(3, 4, dtype=np.float32), columns))
            assert store.count() == 3
        finally:
            store.drop()
