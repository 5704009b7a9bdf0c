"""What is particular to AnnLite and DocArray, run inside their environment by
`test_own_environments.py` (the main environment does not have them)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from annlite import AnnLite
from docarray import Document, DocumentArray
from qdrant_client import QdrantClient

from vectrial._engine import Judge, Recorder
from vectrial.datasets.exact import exact_topk
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.errors import StoreError
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate, fields
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address, Store
from vectrial.stores.common.arrow import batch_of, ids_of, metadata_of, vectors_of
from vectrial_reproduce.stores.docarray import qdrant as docarray_qdrant
from vectrial_reproduce.stores.docarray.annlite import (
    AnnLiteHnswBuild,
    AnnLiteHnswSearch,
    AnnLiteStore,
)
from vectrial_reproduce.stores.docarray.annlite_array import DocArrayAnnLite
from vectrial_reproduce.stores.docarray.qdrant import DocArrayQdrant
from vectrial_reproduce.stores.docarray.redis import DocArrayRedis
from vectrial_reproduce.stores.docarray.store import DocArrayMemory, DocArraySqlite

# Names that a library which puts them into SQL or splits them would trip over.
FIELDS = (
    Field("order", FieldType.INT),
    Field("a__b", FieldType.STRING),
    Field("group by", FieldType.FLOAT),
    Field("_id", FieldType.BOOL),
)
SCHEMA = Schema(4, Metric.L2, FIELDS)
BARE = Schema(4, Metric.L2)
INDEXES = {
    AnnLiteStore: Index("hnsw", AnnLiteHnswBuild()),
    DocArrayAnnLite: Index("hnsw", AnnLiteHnswBuild()),
    DocArrayMemory: Index("flat", NoParams()),
    DocArraySqlite: Index("flat", NoParams()),
}
EF = AnnLiteHnswSearch(ef_search=200)


def rows(schema: Schema, start: int, stop: int, seed: int = 0) -> pa.RecordBatch:
    """Rows with these ids; every value is missing now and then."""
    ids = np.arange(start, stop)
    rng = np.random.default_rng([seed, start])
    texts = ["plain", "{brace}", "it's", "", "None", "7"]
    values: dict[str, list[Any]] = {
        "order": [int(v) for v in rng.integers(-5, 5, ids.size)],
        "a__b": [texts[v] for v in rng.integers(0, len(texts), ids.size)],
        "group by": [float(v) / 10 for v in rng.integers(-9, 9, ids.size)],
        "_id": [bool(v) for v in rng.integers(0, 2, ids.size)],
    }
    columns = {
        name: [None if rng.random() < 0.2 else v for v in column]
        for name, column in values.items()
        if any(f.name == name for f in schema.fields)
    }
    vectors = rng.standard_normal((ids.size, schema.dim)).astype(np.float32)
    return batch_of(schema, ids, vectors, columns)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    opened: list[Store] = []

    def make(kind: type[Store], schema: Schema = SCHEMA, *, again: bool = False) -> Store:
        store = kind(tmp_path)
        (store.open if again else store.create)(schema, INDEXES[kind])
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


CONDITIONS: list[Filter] = [
    Eq("order", 3),
    Eq("a__b", "{brace}"),
    Eq("a__b", "it's"),
    Eq("a__b", ""),
    Eq("a__b", "None"),
    Eq("a__b", "7"),
    Eq("group by", 0.3),
    Eq("_id", True),
    Eq("_id", False),
    In("order", (1, 2, 77)),
    In("a__b", ("{brace}", "plain")),
    Range("order", gte=-1, lt=3),
    Range("group by", gt=0.1, lte=0.5),
    Range("order", lt=1.5),
    And((Eq("_id", True), Or((Eq("order", 1), Range("group by", lt=0.0))))),
    Or((And((Range("order", gt=0), Range("order", lt=3))), Eq("a__b", "plain"))),
]
MISSING: list[Filter] = [IsNull("order"), And((IsNull("a__b"), Not(IsNull("_id"))))]


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.name)
def test_every_condition_means_what_it_means_everywhere(make: Any, kind: type[Store]) -> None:
    store = make(kind)
    batch = rows(SCHEMA, 0, 300)
    store.insert(batch)
    table = pa.Table.from_batches([metadata_of(batch, SCHEMA)])
    conditions = CONDITIONS + (MISSING if "is_null" in kind.capabilities.find else [])
    conditions += [Not(c) for c in conditions] + [
        Not(And((c, Eq("_id", True)))) for c in CONDITIONS
    ]
    kept = 0
    for condition in conditions:
        expected = np.flatnonzero(evaluate(condition, table))
        kept += len(expected)
        assert sorted(store.find(condition, 1000).tolist()) == expected.tolist(), condition
        assert len(store.find(condition, 2)) == min(2, len(expected))
    assert kept > 1000


def test_annlite_opens_its_dump_and_never_one_left_behind(make: Any) -> None:
    store = make(AnnLiteStore, BARE)
    store.insert(rows(BARE, 0, 50))
    store.flush()
    dump = store._ann.snapshot_path
    assert dump is not None
    store.close()

    store = make(AnnLiteStore, BARE, again=True)
    assert store.count() == 50
    store.flush()
    assert store._ann.snapshot_path == dump, "nothing was written: the dump stands"
    fresh = rows(BARE, 50, 60)
    store.insert(fresh)
    assert store._ann.snapshot_path is None
    store.close()  # without a flush: as after a crash

    store = make(AnnLiteStore, BARE, again=True)
    assert store.count() == 60
    query = fresh.column("vector").flatten().to_numpy()[:4]
    ids, scores = store.searcher(1, EF)(query)
    assert ids.tolist() == [50]
    assert scores.tolist() == [0.0]


def test_annlite_grows_past_its_first_capacity_after_opening_a_dump(make: Any) -> None:
    store = make(AnnLiteStore, BARE)
    store.insert(rows(BARE, 0, 10_300))  # it grows in steps of 10,240
    store.flush()
    store.close()
    store = make(AnnLiteStore, BARE, again=True)
    store.insert(rows(BARE, 10_300, 20_600))
    assert store.count() == 20_600
    assert len(store.searcher(100, EF)(np.zeros(4, np.float32))[0]) == 100


@pytest.mark.parametrize("schema", [BARE, SCHEMA], ids=["bare", "with metadata"])
def test_annlite_updates_in_the_graph_the_documents_and_the_columns(
    make: Any, schema: Schema
) -> None:
    store = make(AnnLiteStore, schema)
    store.insert(rows(schema, 0, 50))
    new = rows(schema, 10, 60, seed=1)
    store.upsert(new)
    assert store.count() == 60
    assert store.get(np.array([10, 59, 60])).num_rows == 2
    vectors = new.column("vector").flatten().to_numpy().reshape(-1, 4)
    search = store.searcher(1, EF)
    assert [int(search(v)[0][0]) for v in vectors] == list(range(10, 60))
    if schema.fields:
        expected = evaluate(Eq("order", 1), pa.Table.from_batches([metadata_of(new, schema)]))
        found = store.find(Eq("order", 1), 100)
        assert sorted(found[found >= 10].tolist()) == (10 + np.flatnonzero(expected)).tolist()


def test_two_searchers_keep_their_own_ef(make: Any) -> None:
    schema = Schema(16, Metric.L2)
    store = make(AnnLiteStore, schema)
    batch = rows(schema, 0, 3000)
    store.insert(batch)
    vectors = batch.column("vector").flatten().to_numpy().reshape(-1, 16)
    narrow, wide = (store.searcher(1, AnnLiteHnswSearch(ef_search=ef)) for ef in (1, 500))
    queries = np.random.default_rng(1).standard_normal((100, 16)).astype(np.float32)
    right = {"narrow": 0, "wide": 0}
    for query in queries:
        nearest = int(np.square(vectors - query).sum(axis=1).argmin())
        right["narrow"] += int(narrow(query)[0][0] == nearest)
        right["wide"] += int(wide(query)[0][0] == nearest)
    assert right["wide"] == 100
    assert right["narrow"] < 100


def test_truth_and_recorder_work_with_numpy_1(make: Any) -> None:
    assert np.__version__.startswith("1.")
    store = make(DocArrayMemory, BARE)
    batch = rows(BARE, 0, 400)
    store.insert(batch)
    queries = np.random.default_rng(2).standard_normal((20, 4)).astype(np.float32)
    truth = exact_topk(vectors_of(batch), ids_of(batch), queries, Metric.L2, 10)
    judge = Judge(10, truth.accept_offsets, truth.accept_ids, truth.available)
    recorder, search = Recorder(judge), store.searcher(10, NoParams())
    recorder.start(perf_counter_ns())
    for number, query in enumerate(queries):
        sent = perf_counter_ns()
        ids, _ = search(query)
        recorder.answer(number, sent, sent, perf_counter_ns(), ids)
    recorder.finish(perf_counter_ns())
    summary = recorder.summary()
    assert summary["count"] == 20
    assert summary["recall_mean"] == 1.0


# -- DocArray on databases ----------------------------------------------------------------------

NUMBERS = Schema(4, Metric.L2, tuple(f for f in FIELDS if f.type is not FieldType.BOOL))


@pytest.fixture
def qdrant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DocArrayQdrant]:
    """The store over the client's own in-memory mode, since no package registry has the server:
    DocArray's calls and ours, and none of the server's."""
    from docarray.array.storage.qdrant import backend

    client = QdrantClient(":memory:")
    monkeypatch.setattr(docarray_qdrant, "connect", lambda _: client)
    monkeypatch.setattr(backend, "QdrantClient", lambda **_: client)
    store = DocArrayQdrant(tmp_path, Address("nowhere", {"http": 1, "grpc": 2}))
    yield store
    store.close()


def test_qdrants_client_takes_every_call(qdrant: DocArrayQdrant) -> None:
    index = Index("hnsw", DocArrayQdrant.capabilities.indexes["hnsw"].build())
    qdrant.create(NUMBERS, index)
    qdrant.create(NUMBERS, index)  # what was there before is gone
    batch = rows(NUMBERS, 0, 300)
    qdrant.insert(batch)
    assert qdrant.wait_indexed() == "the collection's status is green"
    table = pa.Table.from_batches([metadata_of(batch, NUMBERS)])
    for condition in [c for c in CONDITIONS + MISSING if fields(c) <= set(NUMBERS.columns)]:
        for where in (condition, Not(condition)):
            expected = np.flatnonzero(evaluate(where, table))
            assert sorted(qdrant.find(where, 1000).tolist()) == expected.tolist(), where
    vector = vectors_of(batch)[7].copy()
    kind = DocArrayQdrant.capabilities.indexes["hnsw"]
    for params in (kind.search(), kind.search(ef_search=64)):
        ids, scores = qdrant.searcher(3, params)(vector)
        assert ids[0] == 7
        assert scores[0] == pytest.approx(0.0, abs=1e-3)
    qdrant.upsert(rows(NUMBERS, 290, 310, seed=1))
    qdrant.delete(np.array([0, 1]))  # an absent id is an error in this mode alone
    assert qdrant.count() == 308
    assert qdrant.get(np.array([0, 2, 309])).num_rows == 2
    qdrant.open(NUMBERS, index)
    qdrant.delete(np.array([2]))  # it is in no list of this DocumentArray
    assert qdrant.count() == 307
    qdrant.drop()
    with pytest.raises(StoreError, match="no collection"):
        qdrant.open(NUMBERS, index)


def test_a_store_over_a_server_asks_for_its_address(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="docarray-redis needs the address of a server"):
        DocArrayRedis(tmp_path)


# -- why the stores do not offer, or work around, what the libraries have. When one of these
#    fails, the library has been mended, and the store's declaration is out of date. ------------


def test_annlites_own_filtered_search_raises(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((2000, 16)).astype(np.float32)
    ann = AnnLite(16, metric="euclidean", data_path=tmp_path, columns={"f0": int})
    ann.index(
        DocumentArray(
            Document(id=str(i), embedding=v, tags={"f0": i}) for i, v in enumerate(vectors)
        )
    )
    raised = 0
    for vector in vectors[:200]:
        try:
            ann.search_numpy(vector[np.newaxis], filter={"f0": {"$lt": 20}}, limit=10)
        except RuntimeError as error:
            raised += "Cannot return the results" in str(error)
    ann.close()
    assert raised > 0


def test_annlites_own_update_leaves_the_columns(tmp_path: Path) -> None:
    ann = AnnLite(2, data_path=tmp_path, columns={"f0": int})
    ann.index(DocumentArray([Document(id="1", embedding=np.ones(2), tags={"f0": 1})]))
    ann.update(DocumentArray([Document(id="1", embedding=np.ones(2), tags={"f0": 2})]))
    assert ann.get_doc_by_id("1").tags["f0"] == 2
    assert len(ann.filter({"f0": {"$eq": 2}})) == 0
    ann.close()


def test_annlite_loads_a_dump_that_writes_have_left_behind(tmp_path: Path) -> None:
    def document(id_: str) -> DocumentArray:
        return DocumentArray([Document(id=id_, embedding=np.ones(2))])

    ann = AnnLite(2, data_path=tmp_path)
    ann.index(document("1"))
    ann.dump()
    ann.index(document("2"))
    ann.close()
    ann = AnnLite(2, data_path=tmp_path)
    assert ann.get_doc_by_id("2") is not None
    assert ann.index_size == 1, "the second row is stored, and never found"
    ann.close()


def test_docarrays_euclidean_loses_the_nearest() -> None:
    vectors = np.random.default_rng(0).standard_normal((500, 64)).astype(np.float32)
    rows = DocumentArray(Document(id=str(i), embedding=v) for i, v in enumerate(vectors))
    found = {
        metric: [rows.find(v, metric=metric, limit=1)[0].id for v in vectors]
        for metric in ("euclidean", "sqeuclidean")
    }
    expected = [str(i) for i in range(len(vectors))]
    assert found["sqeuclidean"] == expected
    assert found["euclidean"] != expected
