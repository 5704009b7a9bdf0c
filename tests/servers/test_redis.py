"""Redis for real: both lanes ask and write the same, expressions say what filters mean, and a
crash loses what was promised to be lost and nothing else."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from readiness import ready
from search_check import SearchCheck

from vectrial.model.capabilities import Durability, Index, Returning
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Fault
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate
from vectrial.model.metric import Metric
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.servers.base import AccessRefused, NoProgram, Server, ServerError
from vectrial.servers.cluster import LocalCluster
from vectrial.servers.provide import make_server, prepare
from vectrial.stores.common.arrow import batch_of, metadata_of
from vectrial.stores.common.server import wait_until
from vectrial.stores.redis import expressions, search
from vectrial.stores.redis.common import require_version
from vectrial.stores.redis.existing import as_text, index_info
from vectrial.stores.redis.server import REDIS, REDIS_SEARCH, connect
from vectrial.stores.redis.store import Redis, VectorSetBuild, VectorSetSearch
from vectrial.testing.server_programs import require_startable
from vectrial.workload.native.rows import columns_of, send

pytestmark = pytest.mark.server("redis")

ROWS, DIM, K = 1_000, 32, 10
FIELDS = (
    Field("number", FieldType.INT),
    Field("price", FieldType.FLOAT),
    Field("colour", FieldType.STRING),
    Field("flag", FieldType.BOOL),
)
SCHEMA = Schema(DIM, Metric.COSINE, FIELDS)
RNG = np.random.default_rng(12)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(25, DIM)).astype(np.float32)
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 3), [-(2**63), 2**63 - 1, 0])
TEXTS = ["red", "", None, 'it\'s "quoted" 5% \\', "new\nline\t\x01", "%22", "ünï 🦉"]
COLUMNS: Mapping[str, list[Any]] = {
    "number": [None if i % 11 == 0 else i % 50 - 20 for i in range(ROWS)],
    "price": [(None, -1.5, 1e-7, 1e30, 0.1)[i % 5] for i in range(ROWS)],
    "colour": [TEXTS[i % len(TEXTS)] for i in range(ROWS)],
    "flag": [(None, True, False)[i % 3] for i in range(ROWS)],
}
BATCH = batch_of(SCHEMA, IDS, VECTORS, COLUMNS)
METADATA = metadata_of(BATCH, SCHEMA)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    require_startable(REDIS)
    with make_server(REDIS, tmp_path_factory.mktemp("redis")) as server:
        yield server


def made(
    server: Server,
    location: Path,
    index: str = "flat",
    durability: Durability | None = None,
    **build: int,
) -> Redis:
    location.mkdir()
    store = Redis(location, server.address)
    store.durability = durability
    kind = store.capabilities.indexes[index]
    store.create(SCHEMA, Index(index, kind.build.model_validate(build)))
    return store


@pytest.fixture(scope="module")
def loaded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    store = made(server, tmp_path_factory.mktemp("redis-loaded") / "flat")
    store.insert(BATCH)
    yield store
    store.close()


def kept(where: Filter | None) -> NDArray[np.bool_]:
    if where is None:
        return np.ones(ROWS, bool)
    return evaluate(where, pa.Table.from_batches([METADATA]))


CHECK = SearchCheck(IDS, VECTORS, QUERIES)
FILTERS: dict[str, Filter | None] = {
    "none": None,
    "negative": Range("number", gte=-7, lt=-2),
    "text": Eq("colour", TEXTS[3] or ""),
    "control": In("colour", (TEXTS[4] or "", TEXTS[5] or "")),
    "small float": Eq("price", 1e-7),
    "great float": Range("price", gt=9.9e29, lte=1e30),
    "nested": And((Or((Eq("flag", True), IsNull("colour"))), Not(Eq("number", 3)))),
}


@pytest.mark.parametrize("protocol", ["redis", "redis-pipelined"])
@pytest.mark.parametrize("label", FILTERS)
def test_the_native_lane_finds_what_is_true(loaded: Redis, label: str, protocol: str) -> None:
    where = FILTERS[label]
    params = loaded.capabilities.indexes["flat"].search()
    for returning in (Returning.IDS, Returning.METADATA):
        mask = kept(where)
        recall = CHECK.native_recall(
            loaded, Metric.COSINE, params, where, mask, returning, protocol
        )
        assert recall == 1.0
        assert CHECK.client_recall(loaded, Metric.COSINE, params, where, mask, returning) == 1.0


def test_what_a_search_cannot_bring_is_refused_on_the_wire(loaded: Redis) -> None:
    params = loaded.capabilities.indexes["flat"].search()
    with pytest.raises(Unsupported, match="vectors"):
        loaded.native_search(K, params, None, Returning.VECTORS)
    found = loaded.searcher_returning(Returning.VECTORS, K, params)(QUERIES[0])
    np.testing.assert_array_equal(np.sort(found[0]), np.sort(CHECK.nearest(Metric.COSINE)[0]))


VALUES = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
    st.booleans(),
)


#: The ends of the integers that float64 tells apart, and the first beyond them.
_EDGES = [sign * (2**53 + step) for sign in (-1, 1) for step in (-1, 0, 1)]


@settings(max_examples=150)
@given(value=VALUES, other=VALUES)
@example(value=-(2**53), other=-(2**53))
@example(value=2**53, other=2**53)
def test_expressions_say_every_value(server: Server, value: Any, other: Any) -> None:
    """An element with this attribute equals it, and another value of its type does only if so."""
    kind = {int: "INT", float: "FLOAT", str: "STRING", bool: "BOOL"}[type(value)]
    types = {"x": FieldType[kind]}
    key = "vectrial:test:expressions"
    with connect(server.address, 60) as client:
        vectors, one = client.vset(), np.ones(4, np.float32).tobytes()
        vectors.vadd(key, one, "1", attributes=expressions.attributes({"f0": value}))

        def holds(where: Filter) -> bool:
            told = expressions.expression(where, {"x": "f0"}, types)
            return bool(vectors.vsim(key, one, filter=told))

        assert expressions.values(vectors.vgetattr(key, "1")) == {"f0": value}
        assert holds(Eq("x", value))
        assert holds(In("x", (value,)))
        assert not holds(Not(Eq("x", value)))
        assert not holds(IsNull("x"))
        if type(other) is type(value):
            assert holds(Eq("x", other)) == (other == value)
            assert holds(Not(Eq("x", other))) == (other != value)
            if not isinstance(value, str | bool):
                assert holds(Range("x", lt=other)) == (value < other)
                assert holds(Range("x", gte=other)) == (value >= other)


def test_bounds_beyond_the_integers_of_float64_are_not_taken_for_the_last_of_them(
    server: Server,
) -> None:
    types, key = {"x": FieldType.INT}, "vectrial:test:edges"
    with connect(server.address, 60) as client:
        vectors, one = client.vset(), np.ones(4, np.float32).tobytes()
        for value in [edge for edge in _EDGES if abs(edge) <= 2**53]:
            vectors.vadd(key, one, "1", attributes=expressions.attributes({"f0": value}))
            row = pa.table({"x": [value]})
            for bound in _EDGES:
                for where in [
                    Eq("x", bound),
                    In("x", (bound, bound)),
                    *(Range("x", **{sign: bound}) for sign in ("gt", "gte", "lt", "lte")),
                ]:
                    for asked in (where, Not(where)):
                        told = expressions.expression(asked, {"x": "f0"}, types)
                        kept = bool(vectors.vsim(key, one, filter=told))
                        assert kept == evaluate(asked, row)[0], (value, asked)


def test_rows_written_over_the_wire_are_as_those_that_the_client_writes(
    server: Server, loaded: Redis, tmp_path: Path
) -> None:
    store = made(server, tmp_path / "wire")
    native = store.native_rows()
    columns = columns_of(pa.Table.from_batches([METADATA]), native.columns)

    def ask(operation: str, ids: NDArray[np.int64], vectors: Any = None) -> None:
        written = () if vectors is None else columns
        told = send(native, operation, ids, vectors, written, batch=128, clients=2)["classes"][0]
        assert told["recorder"].errors() == []
        assert told["rows"] == len(ids)

    ask("insert", IDS, VECTORS)
    assert store.count() == ROWS
    order = [("id", "ascending")]
    assert store.get(IDS).sort_by(order).equals(loaded.get(IDS).sort_by(order))
    ask("get", IDS[:200])
    ask("upsert", IDS, VECTORS[::-1])
    at = int(IDS[5])
    vector = np.float32(store.get(IDS[5:6]).column("vector").to_pylist()[0])
    np.testing.assert_allclose(vector, VECTORS[ROWS - 6], rtol=1e-5, atol=1e-6)
    ask("delete", IDS[:200])
    assert store.count() == ROWS - 200
    assert store.get(np.array([at])).num_rows == 0
    store.drop()
    store.close()


def test_ef_search_decides_recall_in_both_lanes(server: Server, tmp_path: Path) -> None:
    store = made(server, tmp_path / "hnsw", "hnsw", m=4, ef_construction=8)
    store.insert(BATCH)
    assert "VADD" in store.wait_indexed()
    recalls = []
    for ef in (K, 400):
        params = VectorSetSearch(ef_search=ef)
        recalls.append(CHECK.client_recall(store, Metric.COSINE, params))
        # Redis starts a search where it last ended at times, so answers of one question differ.
        native = CHECK.native_recall(store, Metric.COSINE, params)
        assert native == pytest.approx(recalls[-1], abs=0.03)
    store.drop()
    store.close()
    assert recalls[0] < recalls[1] - 0.03


@pytest.mark.parametrize("durability", Durability)
def test_a_crash_keeps_what_was_promised(tmp_path: Path, durability: Durability) -> None:
    require_startable(REDIS)
    with make_server(REDIS, tmp_path / "server") as own:
        store = made(own, tmp_path / "crash", "hnsw", durability)
        with connect(own.address, 60) as client:
            told = client.config_get("append*")
        assert told["appendonly"] == ("no" if durability is Durability.MEMORY else "yes")
        assert told["appendfsync"] == ("always" if durability is Durability.SYNCED else "everysec")
        store.insert(BATCH)
        if durability is Durability.BUFFERED:
            store.flush()
        store.close()
        own.kill()
        own.restart()
        again = Redis(tmp_path / "crash", own.address)
        again.durability = durability
        again.open(SCHEMA, Index("hnsw", VectorSetBuild()))
        assert again.count() == (0 if durability is Durability.MEMORY else ROWS)
        if durability is not Durability.MEMORY:
            found = again.searcher(1, VectorSetSearch(ef_search=200))(VECTORS[7])[0]
            assert found.tolist() == [IDS[7]]
        again.close()


def test_a_wrong_password_names_where_it_is_given(tmp_path: Path) -> None:
    require_startable(REDIS)
    with make_server(REDIS, tmp_path / "server") as own:
        at = own.address
        known = replace(at, secrets={"password": "s'ecret"})
        with connect(at, 60) as client:
            client.execute_command("ACL", "SETUSER", "guest", "on", ">guest", "+ping")
            client.config_set("requirepass", "s'ecret")
        for secrets in ({}, {"password": "another"}, {"user": "guest", "password": "guest"}):
            with pytest.raises(
                AccessRefused, match="VECTRIAL_REDIS_USER and VECTRIAL_REDIS_PASSWORD"
            ):
                ready(REDIS, replace(at, secrets=secrets))
        ready(REDIS, known)


def test_versions_that_do_not_fit_are_said(loaded: Redis) -> None:
    assert untested_note(Redis, loaded.version()) is None
    require_version("redis", "8.4.0", minimum=(8, 2), tested="8.2.3")
    for version in ("7.4.1", "8.0.6", "9.0.0", "seven"):
        with pytest.raises(StoreError, match=version):
            require_version("redis", version, minimum=(8, 2), tested="8.2.3")


def test_without_the_query_engine_it_is_said(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(platform, "machine", lambda: "riscv64")
        elsewhere.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
        assert REDIS_SEARCH.availability().works is False
        with pytest.raises(NoProgram, match="VECTRIAL_REDIS_SEARCH_ADDRESS"):
            prepare(REDIS_SEARCH, print)
    port = server.address.ports["redis"]
    monkeypatch.setenv("VECTRIAL_REDIS_SEARCH_ADDRESS", f"127.0.0.1:redis={port}")
    monkeypatch.setenv("VECTRIAL_REDIS_SEARCH_PASSWORD", server.address.secrets["password"])
    with pytest.raises(ServerError, match=r"has no FT\.SEARCH"):
        make_server(REDIS_SEARCH, tmp_path / "search").wait_ready(60)


@pytest.mark.server("redis-search")
def test_a_row_is_indexed_once_beside_another_collection(tmp_path: Path) -> None:
    """A scan of the server for a new index would index rows inserted meanwhile a second time. The
    server numbers rows as it indexes them, so that the highest number tells."""
    require_startable(REDIS_SEARCH)
    with make_server(REDIS_SEARCH, tmp_path / "search") as server:
        (tmp_path / "rows").mkdir()
        store = search.RedisSearch(tmp_path / "rows", server.address)
        client = connect(server.address, timeout_s=60)
        for start in range(0, 300_000, 10_000):
            client.mset({f"another {i}": "" for i in range(start, start + 10_000)})
        store.create(SCHEMA, Index("hnsw", search.QueryEngineBuild()))
        store.insert(BATCH)
        store.wait_indexed()
        (name,) = client.execute_command("FT._LIST")
        info = index_info(client, as_text(name))
        assert int(info["num_docs"]) == int(info["max_doc_id"]) == ROWS
        client.bgrewriteaof()
        wait_until(lambda: (client.info("persistence")["aof_rewrites"] == 1, "not written anew"))
        client.close()
        store.close()
        server.kill()
        server.restart()
        again = search.RedisSearch(tmp_path / "rows", server.address)
        again.open(SCHEMA, Index("hnsw", search.QueryEngineBuild()))
        again.wait_indexed()
        ids, _ = again.searcher(K, search.QueryEngineSearch(ef_search=500))(VECTORS[7])
        again.close()
    assert IDS[7] in ids, "the index is loaded with the rows, too"


def test_replicas_follow_the_first_node_and_take_no_writes(tmp_path: Path) -> None:
    from redis import ReadOnlyError

    require_startable(REDIS)
    with LocalCluster(REDIS, 2, tmp_path / "cluster") as cluster:
        first, second = cluster.address.nodes
        assert [node["role"] for node in cluster.nodes()] == ["primary", "replica"]
        store = Redis(tmp_path / "rows", cluster.address)
        store.create(SCHEMA, Index("hnsw", VectorSetBuild()))
        native = store.native_rows()
        columns = columns_of(pa.Table.from_batches([METADATA]), native.columns)
        sent = send(native, "insert", IDS, VECTORS, columns, batch=1, clients=4)
        assert sent["classes"][0]["recorder"].errors() == [], "each went to the first node"
        assert "1 of 1 other nodes show it" in store.wait_indexed()
        replica = Redis(tmp_path / "rows", second)
        replica.open(SCHEMA, store._index)
        assert replica.count() == ROWS
        with connect(second, 60) as client, pytest.raises(ReadOnlyError):
            client.set("any", 1)
        cluster.strike(1, Fault.KILL)
        store.delete(IDS[:5])
        cluster.mend(1, Fault.KILL)
        cluster.wait_ready()
        store.wait_indexed()
        replica.refresh()
        assert replica.count() == ROWS - 5, "it has what it missed"
        with pytest.raises(ServerError, match="takes writes: give the node that"):
            ready(REDIS, replace(first, nodes=(second, first)))
        replica.close()
        store.close()
