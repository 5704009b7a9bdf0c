"""Elasticsearch and OpenSearch for real: both lanes ask the same and read the same rows, the final
index answers, what is wrong is said, and a crash loses nothing that was acknowledged."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from quick_servers import quick_servers
from search_check import SearchCheck

from vectrial.engine.client import Requests, closed, drive
from vectrial.engine.types import LoadRecord
from vectrial.model.capabilities import Durability, Index, Returning
from vectrial.model.errors import PartialFailure, StoreError
from vectrial.model.filters import And, Eq, Filter, IsNull, Not, Range
from vectrial.model.metric import Metric
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import Recipe, Server
from vectrial.servers.provide import make_server
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.lucene.common import authorization
from vectrial.stores.lucene.elasticsearch import Elasticsearch
from vectrial.stores.lucene.opensearch import OpenSearch
from vectrial.stores.lucene.server import ELASTICSEARCH, OPENSEARCH
from vectrial.stores.lucene.store import LuceneStore
from vectrial.testing.server_programs import require_startable

pytestmark = pytest.mark.slow

ROWS, DIM, K = 3_000, 32, 10
FIELDS = (Field("number", FieldType.INT), Field("colour", FieldType.STRING, indexed=False))
RNG = np.random.default_rng(11)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(30, DIM)).astype(np.float32)
#: The least, the greatest, zero, and others that use all bits.
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 3), [-(2**63), 2**63 - 1, 0])
COLUMNS: dict[str, list[Any]] = {
    "number": [i % 50 for i in range(ROWS)],
    "colour": [("red", "green", "", None)[i % 4] for i in range(ROWS)],
}
CHECK = SearchCheck(IDS, VECTORS, QUERIES)
FILTERS: dict[str, tuple[Filter | None, NDArray[np.bool_]]] = {
    "none": (None, np.ones(ROWS, bool)),
    "nested": (
        And((Range("number", gte=10, lt=40), Not(Eq("colour", "red")))),
        np.array([10 <= i % 50 < 40 and i % 4 in (1, 2) for i in range(ROWS)]),
    ),
    "null": (IsNull("colour"), np.arange(ROWS) % 4 == 3),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((store, recipe), id=recipe.name, marks=pytest.mark.server(recipe.name))
        for store, recipe in ((Elasticsearch, ELASTICSEARCH), (OpenSearch, OPENSEARCH))
    ],
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[type[LuceneStore], Server]]:
    """A store, and a server for it."""
    kind: tuple[type[LuceneStore], Recipe] = request.param
    store, recipe = kind
    require_startable(recipe)
    with quick_servers(), make_server(recipe, tmp_path_factory.mktemp(recipe.name)) as server:
        yield store, server


@pytest.fixture
def server(both: tuple[type[LuceneStore], Server]) -> Server:
    return both[1]


@pytest.fixture
def store(both: tuple[type[LuceneStore], Server], tmp_path: Path) -> Iterator[LuceneStore]:
    with closing(both[0](tmp_path, both[1].address)) as store:
        yield store
        store.drop()


def create(store: LuceneStore, metric: Metric, index: str = "flat", **build: Any) -> None:
    params = store.capabilities.indexes[index].build.model_validate(build)
    store.create(Schema(DIM, metric, FIELDS), Index(index, params))


def insert(store: LuceneStore, rows: slice = slice(None)) -> None:
    columns = {name: values[rows] for name, values in COLUMNS.items()}
    schema = Schema(DIM, Metric.L2, FIELDS)
    store.insert(batch_of(schema, IDS[rows], VECTORS[rows], columns))


@pytest.mark.parametrize("metric", Metric)
def test_the_native_lane_finds_what_is_true(store: LuceneStore, metric: Metric) -> None:
    create(store, metric)
    insert(store)
    params = store.capabilities.indexes["flat"].search()
    for label, (where, kept) in FILTERS.items():
        for returning in Returning:
            found = CHECK.native_recall(store, metric, params, where, kept, returning)
            assert found == 1.0, (label, returning)


def test_a_find_is_one_request(store: LuceneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    create(store, Metric.L2)
    insert(store)
    expected = {int(id_) for id_, number in zip(IDS, COLUMNS["number"], strict=True) if number == 7}
    assert set(store.find(Eq("number", 7), ROWS).tolist()) == expected  # refreshes
    transport, asked = store._client.transport, list[Any]()
    perform = transport.perform_request

    def listen(*given: Any, **more: Any) -> Any:
        asked.append(given)
        return perform(*given, **more)

    monkeypatch.setattr(transport, "perform_request", listen)
    assert set(store.find(Eq("number", 7), 10).tolist()) < expected
    assert set(store.find(Eq("number", 7), ROWS).tolist()) == expected
    assert len(asked) == 2
    # More than one answer may have are read page by page.
    assert set(store.find(Eq("number", 7), 20_000).tolist()) == expected
    assert len(asked) > 3


def test_a_search_brings_back_what_it_is_asked_for(store: LuceneStore) -> None:
    create(store, Metric.L2)
    insert(store)
    params = store.capabilities.indexes["flat"].search()
    alone = store.searcher(K, params)(QUERIES[0])
    seen: list[Any] = []
    search = store._client.search

    def listen(**asked: Any) -> Any:
        seen.append(search(**asked)["hits"]["hits"])
        return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": seen[-1]}}

    store._client.search = listen
    for returning in Returning:
        found = store.searcher_returning(returning, K, params)(QUERIES[0])
        np.testing.assert_array_equal(found[0], alone[0])
    rows = [{**hit["fields"], **hit.get("_source", {})} for hit in (one[0] for one in seen)]
    place = IDS.tolist().index(alone[0][0])
    assert set(rows[0]) == {"id"}
    assert rows[1]["f0"] == [COLUMNS["number"][place]]
    np.testing.assert_array_equal(np.float32(rows[2]["vector"]).reshape(-1), VECTORS[place])


def test_both_lanes_have_the_same_recall_and_ef_decides_it(store: LuceneStore) -> None:
    create(store, Metric.L2, "hnsw", m=4, ef_construction=8)
    for start in range(0, ROWS, 500):
        insert(store, slice(start, start + 500))
        store.flush()
    store.build()
    assert "(1 segments)" in store.wait_indexed()
    recalls = []
    for ef in (K, 1000):
        params = store.capabilities.indexes["hnsw"].search.model_validate({"ef_search": ef})
        recalls.append(CHECK.native_recall(store, Metric.L2, params))
        assert recalls[-1] == pytest.approx(CHECK.client_recall(store, Metric.L2, params))
    assert recalls[0] < recalls[1] - 0.05, "the graph answers, and not a scan"


def test_rows_written_over_the_wire_are_those_that_the_client_reads(store: LuceneStore) -> None:
    create(store, Metric.L2)
    native = store.native_rows()
    numbers = np.array(COLUMNS["number"])
    there = np.array([value is not None for value in COLUMNS["colour"]])
    columns: Any = [
        {"name": native.columns["number"], "values": numbers, "valid": None},
        {
            "name": native.columns["colour"],
            "values": [value or "" for value in COLUMNS["colour"]],
            "valid": there,
        },
    ]

    def write(operation: str, **more: Any) -> LoadRecord:
        asked = Requests(operation, operation, batch=100, options=native.options, once=True, **more)
        (told,) = drive(native.target, [asked], [closed(2)])["classes"]
        return told

    told = write("insert", vectors=VECTORS, ids=IDS, columns=columns)
    assert (told["recorder"].errors(), told["rows"]) == ([], ROWS)
    assert store.count() == ROWS
    rows = {row["id"]: row for row in store.get(IDS).to_pylist()}
    place = Schema(DIM, Metric.L2, FIELDS).columns
    for at, id_ in enumerate(IDS.tolist()):
        np.testing.assert_array_equal(np.float32(rows[id_]["vector"]), VECTORS[at])
        for name in ("number", "colour"):
            assert rows[id_][place[name]] == COLUMNS[name][at]
    again = write("insert", vectors=VECTORS[:200], ids=IDS[:200])["recorder"].errors()
    assert [(kind, count) for kind, count, _ in again] == [("incomplete", 2)], "rows are there"
    assert "version_conflict" in again[0][2][0]
    assert write("get", ids=IDS[:200])["recorder"].errors() == []
    twice = np.append(IDS[:100], IDS[:100])
    assert write("delete", ids=twice)["recorder"].errors() == [], "absent ids are ignored"
    assert store.count() == ROWS - 100
    assert write("upsert", vectors=VECTORS[:200], ids=IDS[:200])["recorder"].errors() == []
    assert store.count() == ROWS


def test_rows_that_are_refused_are_named(store: LuceneStore) -> None:
    create(store, Metric.COSINE, "hnsw")
    insert(store, slice(0, 10))
    with pytest.raises(PartialFailure, match="version_conflict") as refused:
        insert(store, slice(8, 12))
    assert sorted(refused.value.failed_ids) == sorted(IDS[8:10].tolist())
    zero = batch_of(Schema(DIM, Metric.COSINE), IDS[20:21], np.zeros((1, DIM), np.float32), {})
    store._schema = Schema(DIM, Metric.COSINE)
    with pytest.raises(PartialFailure) as refused:
        store.insert(zero)
    assert refused.value.failed_ids == (IDS[20],)


@pytest.mark.parametrize("durability", [None, *Durability])
def test_durability_is_set_explicitly(
    store: LuceneStore, server: Server, durability: Durability | None
) -> None:
    if durability is not None and durability not in store.capabilities.durability:
        pytest.skip(f"{store.name} does not offer it")
    store.durability = durability
    create(store, Metric.L2)
    asked = f"http://127.0.0.1:{server.address.ports['http']}/{store._name}/_settings"
    with urllib.request.urlopen(asked) as answer:
        (told,) = json.load(answer).values()
    expected = "async" if durability is Durability.BUFFERED else "request"
    assert told["settings"]["index"]["translog"]["durability"] == expected
    assert told["settings"]["index"]["number_of_replicas"] == "0"


def test_the_version_was_tested_and_names_its_java(store: LuceneStore) -> None:
    told = store.version()
    assert untested_note(type(store), told) is None
    assert re.search(r"\(Java \d+", told)


def test_what_was_acknowledged_survives_a_crash(
    both: tuple[type[LuceneStore], Server], tmp_path: Path
) -> None:
    kind, server = both
    with closing(kind(tmp_path, server.address)) as store:
        create(store, Metric.L2, "hnsw")
        insert(store)
    server.kill()
    assert not server.is_alive()
    server.restart()
    with closing(kind(tmp_path, server.address)) as again:
        again.open(
            Schema(DIM, Metric.L2, FIELDS),
            Index("hnsw", again.capabilities.indexes["hnsw"].build()),
        )
        assert again.count() == ROWS
        generous = again.capabilities.indexes["hnsw"].high_recall_params
        params = again.capabilities.indexes["hnsw"].search.model_validate(dict(generous))
        found = [again.searcher(1, params)(VECTORS[at])[0][0] for at in range(0, ROWS, 100)]
        assert found == IDS[::100].tolist()
        again.drop()
    assert set(server.processes()) == {"server"}
    (folder,) = server.data_dirs()
    assert any(folder.iterdir())


def test_how_one_is_let_in() -> None:
    def told(**secrets: str) -> str | None:
        return authorization(Address("db", {"http": 9200}, secrets))

    assert told() is None
    assert told(api_key="abc") == "ApiKey abc"
    assert told(user="me", password="pass") == "Basic bWU6cGFzcw=="
    with pytest.raises(StoreError, match="together"):
        told(user="me")
