"""Files are told apart by their paths, and kinds add up to what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.experiments.storage.report import KINDS
from vectrial.model.file_categories import FileKind, kind_of
from vectrial.model.results_schema import METRICS
from vectrial.model.store import Store
from vectrial.stores.lucene.elasticsearch import Elasticsearch
from vectrial.stores.milvus.store import Milvus
from vectrial.stores.redis.search import RedisSearch
from vectrial.stores.redis.store import Redis
from vectrial.stores.sqlite.store import SqliteStore
from vectrial.stores.weaviate.store import Weaviate
from vectrial.telemetry.disk import allocated_bytes, allocated_bytes_by_kind

SHARD = "/docs/x1"
SHARD_OF_LUCENE = "/data/indices/u1/0"
K = FileKind


@pytest.mark.parametrize(
    ("store", "path", "kind"),
    [
        (Weaviate, f"{SHARD}/lsm/objects/segment-1.db", K.ROWS),
        (Weaviate, f"{SHARD}/lsm/objects/segment-1.bloom", K.ROWS),
        (Weaviate, f"{SHARD}/lsm/objects/segment-2.wal", K.LOG),
        (Weaviate, f"{SHARD}/lsm/objects/", K.ROWS),
        (Weaviate, f"{SHARD}/lsm/property_name/segment-1.db", K.METADATA_INDEX),
        (Weaviate, f"{SHARD}/lsm/vectors_compressed_vector/segment-1.db", K.VECTORS),
        (Weaviate, f"{SHARD}/vectors_vector.hnsw.commitlog.d/179", K.INDEX),
        (Weaviate, f"{SHARD}/main.hnsw.snapshot.d/179.snapshot", K.INDEX),
        (Weaviate, "/raft/raft.db", K.CATALOG),
        (Weaviate, "/", K.OTHER),
        (Milvus, "/storage/insert_log/1/2/3/101/4", K.ROWS),
        (Milvus, "/data/insert_log/1/2/3/101/4", K.ROWS),
        (Milvus, "/storage/stats_log/1/2/3/100/1", K.METADATA_INDEX),
        (Milvus, "/storage/index_files/5/1/2/3/HNSW", K.INDEX),
        (Milvus, "/storage/index_files/5/1/2/3/HNSW_0", K.INDEX),
        (Milvus, "/storage/index_files/5/1/2/3/index_data", K.METADATA_INDEX),
        (Milvus, "/rocksmq_meta_kv/000005.log", K.LOG),
        (Milvus, "/rdb_data/000005.sst", K.LOG),
        (Milvus, "/etcd/member/wal/0.tmp", K.CATALOG),
        (Redis, "/appendonlydir/appendonly.aof.1.incr.aof", K.LOG),
        (Redis, "/appendonlydir/appendonly.aof.1.base.rdb", K.MIXED),
        (RedisSearch, "/appendonlydir/appendonly.aof.1.base.rdb", K.ROWS),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/index/_0.cfs", K.MIXED),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/index/_0_Lucene99HnswVectorsFormat_0.vec", K.VECTORS),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/index/_0_Lucene99HnswVectorsFormat_0.vex", K.INDEX),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/index/_0.fdt", K.ROWS),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/index/_0.kdd", K.METADATA_INDEX),
        (Elasticsearch, f"{SHARD_OF_LUCENE}/translog/translog-3.tlog", K.LOG),
        (Elasticsearch, "/tmp/jansi.so", K.OTHER),
        (SqliteStore, "/rows.db", K.OTHER),
    ],
)  # fmt: skip
def test_what_lies_where(store: type[Store], path: str, kind: FileKind) -> None:
    assert kind_of(path, store.files) is kind


def test_every_kind_is_a_metric_and_has_a_name_in_the_report() -> None:
    assert [kind.metric for kind in FileKind] == list(KINDS)
    assert set(KINDS) <= set(METRICS)


def test_kinds_add_up_to_what_is_counted(tmp_path: Path) -> None:
    for path, size in (("etcd/wal", 5_000), ("storage/insert_log/1/2", 90_000), ("readme", 10)):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    (tmp_path / "storage" / "insert_log" / "again").hardlink_to(tmp_path / "etcd" / "wal")
    paths: list[str] = []

    def kind(path: str) -> FileKind:
        paths.append(path)
        return kind_of(path, Milvus.files)

    held = allocated_bytes_by_kind([tmp_path], kind)
    assert sum(held.values()) == allocated_bytes([tmp_path])
    assert held[FileKind.ROWS] >= 90_000
    assert {"/", "/etcd/", "/readme", "/storage/insert_log/1/2"} <= set(paths)
    assert len(paths) == 8, "a file with two names counts once"
