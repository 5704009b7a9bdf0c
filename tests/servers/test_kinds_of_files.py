"""What servers write for real is told apart by kind: with a graph there is an index on the disk,
with rows there are rows, little is left over, and the kinds are all that is counted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick_servers import quick_servers

from vectrial.model.capabilities import Index
from vectrial.model.file_categories import FileKind
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.servers.provide import make_server, recipe_of
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of
from vectrial.telemetry.disk import allocated_bytes, store_bytes_by_kind
from vectrial.testing.server_programs import require_startable
from vectrial.util.child_environment import PASS

ROWS, DIM, PARTS = 3_000, 32, 3
RAW = ROWS * DIM * 4
#: Of Weaviate: seconds after which it writes out what is in memory.
_FLUSH_S = "PERSISTENCE_MEMTABLES_FLUSH_DIRTY_AFTER_SECONDS"
SCHEMA = Schema(DIM, Metric.L2, (Field("number", FieldType.INT), Field("word", FieldType.STRING)))


def load(store: Store) -> None:
    vectors = np.random.default_rng(2).normal(size=(ROWS, DIM)).astype(np.float32)
    for ids in np.array_split(np.arange(ROWS), PARTS):
        columns: dict[str, Any] = {
            "number": (ids % 50).tolist(),
            "word": [("red", "green")[at % 2] for at in ids.tolist()],
        }
        store.insert(batch_of(SCHEMA, ids, vectors[ids], columns))
        store.flush()
    store.build()
    store.wait_indexed()
    store.flush()


def held(name: str, folder: Path, **settings: Any) -> tuple[Mapping[FileKind, int], ...]:
    """Bytes by kind before the load, after it, and of the server that has ended.

    settings: of the index, as its client calls them.
    """
    kind = registry.load(name)
    recipe = recipe_of(kind)
    assert recipe is not None
    require_startable(recipe)
    (folder / "store").mkdir()
    # Milvus at the intervals that it is shipped with: how its driver waits is tested here too.
    quick = nullcontext() if name == "milvus" else quick_servers()
    with quick, make_server(recipe, folder / "server") as server:
        dirs = server.data_dirs()
        before = store_bytes_by_kind(kind, dirs)
        store: Any = kind(folder / "store", server.address)
        store.create(SCHEMA, Index("hnsw", kind.capabilities.indexes["hnsw"].build()))
        if settings:
            store._client.indices.put_settings(index=store._name, body=settings)
        load(store)
        loaded = store_bytes_by_kind(kind, dirs)
        store.close()
    ended = store_bytes_by_kind(kind, dirs)
    assert sum(ended.values()) == allocated_bytes(dirs), "the kinds are the whole"
    assert loaded.get(FileKind.OTHER, 0) < 100_000, "little is left over"
    return before, loaded, ended


@pytest.mark.server("weaviate")
def test_weaviate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By itself it writes out a minute later what is in memory, which a busy machine may need.
    monkeypatch.setenv(_FLUSH_S, "3600")
    monkeypatch.setenv(PASS, _FLUSH_S)
    before, loaded, ended = held("weaviate", tmp_path)
    assert FileKind.INDEX not in before
    assert loaded[FileKind.INDEX] > ROWS * 4 * 16
    assert loaded[FileKind.LOG] > RAW, "rows are in buckets that are in memory and their logs"
    assert ended.get(FileKind.LOG, 0) < RAW
    assert ended[FileKind.ROWS] > RAW
    assert ended[FileKind.METADATA_INDEX] > 50_000


@pytest.mark.server("milvus")
def test_milvus(tmp_path: Path) -> None:
    before, loaded, _ = held("milvus", tmp_path)
    assert loaded[FileKind.INDEX] > RAW, "the index has the vectors as well"
    assert loaded[FileKind.ROWS] > RAW
    assert loaded[FileKind.METADATA_INDEX] > 0
    assert before[FileKind.CATALOG] > 50_000_000, "etcd allocates its log in advance"
    assert loaded[FileKind.LOG] > before[FileKind.LOG], "the message queue keeps the rows as well"


@pytest.mark.server("redis")
def test_redis(tmp_path: Path) -> None:
    before, loaded, _ = held("redis", tmp_path)
    assert before[FileKind.LOG] == 0
    assert loaded[FileKind.LOG] > RAW, "nothing else is written but the commands"


@pytest.mark.parametrize(
    ("name", "settings"),
    # Elasticsearch merges small segments into one compound file, unless it is told not to.
    [
        pytest.param(
            "elasticsearch",
            {"index.compound_format": False},
            marks=pytest.mark.server("elasticsearch"),
        ),
        pytest.param("opensearch", {}, marks=pytest.mark.server("opensearch")),
    ],
)
def test_lucene(name: str, settings: Mapping[str, Any], tmp_path: Path) -> None:
    _, loaded, _ = held(name, tmp_path, **settings)
    assert loaded.get(FileKind.MIXED, 0) < loaded[FileKind.VECTORS]
    assert loaded[FileKind.VECTORS] >= RAW
    assert loaded[FileKind.INDEX] > ROWS * 16
    assert loaded[FileKind.ROWS] > 10_000
    assert loaded[FileKind.METADATA_INDEX] > 10_000
