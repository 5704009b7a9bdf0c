"""PostgreSQL with pgvector for real: both lanes ask and write the same, searches are planned over
the index, and a crash loses nothing that was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from readiness import ready
from search_check import SearchCheck

from vectrial.model.capabilities import Durability, Index, Returning
from vectrial.model.errors import StoreError
from vectrial.model.faults import Fault
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Range, evaluate
from vectrial.model.metric import Metric
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import AccessRefused, Server, ServerError
from vectrial.servers.cluster import LocalCluster
from vectrial.servers.provide import make_server
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.postgres.server import POSTGRES, connect
from vectrial.stores.postgres.sql import HnswScan, IvfScan, PgHnswBuild, PgHnswSearch, PgIvfSearch
from vectrial.stores.postgres.store import PgVector
from vectrial.testing.server_programs import require_startable
from vectrial.workload.native.rows import columns_of, send

pytestmark = pytest.mark.server("pgvector")

ROWS, DIM, K = 1_000, 16, 10
FIELDS = (
    Field("number", FieldType.INT),
    Field("price", FieldType.FLOAT, indexed=False),
    Field("colour", FieldType.STRING),
    Field("flag", FieldType.BOOL, indexed=False),
)
RNG = np.random.default_rng(13)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(20, DIM)).astype(np.float32)
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 3), [-(2**63), 2**63 - 1, 0])
TEXTS = ["red", "", None, 'it\'s "quoted" 5% $1 \\', "new\nline\t\x01", "ünï 🦉"]
COLUMNS: Mapping[str, list[Any]] = {
    "number": [None if i % 11 == 0 else i % 50 - 20 for i in range(ROWS)],
    "price": [(None, -1.5, 1e-7, 1e30, 0.1)[i % 5] for i in range(ROWS)],
    "colour": [TEXTS[i % len(TEXTS)] for i in range(ROWS)],
    "flag": [(None, True, False)[i % 3] for i in range(ROWS)],
}
METADATA = pa.table(COLUMNS)


def schema(metric: Metric = Metric.L2) -> Schema:
    return Schema(DIM, metric, FIELDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    require_startable(POSTGRES)
    with make_server(POSTGRES, tmp_path_factory.mktemp("postgres")) as server:
        yield server


def made(server: Server, location: Path, metric: Metric, index: str, **build: int) -> PgVector:
    """A store with all rows, indexed."""
    location.mkdir(parents=True)
    store = PgVector(location, server.address)
    kind = store.capabilities.indexes[index]
    store.create(schema(metric), Index(index, kind.build.model_validate(build)))
    store.insert(batch_of(schema(metric), IDS, VECTORS, COLUMNS))
    store.build()
    assert "VACUUM" in store.wait_indexed()
    return store


@pytest.fixture(scope="module", params=Metric)
def flat(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PgVector]:
    store = made(server, tmp_path_factory.mktemp("pg") / "flat", request.param, "flat")
    yield store
    store.close()


@pytest.fixture(scope="module")
def graph(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PgVector]:
    location = tmp_path_factory.mktemp("pg-graph") / "hnsw"
    store = made(server, location, Metric.L2, "hnsw", m=4, ef_construction=8, workers=0)
    yield store
    store.close()


CHECK = SearchCheck(IDS, VECTORS, QUERIES)


def mask(where: Filter | None) -> NDArray[np.bool_]:
    return np.ones(ROWS, bool) if where is None else evaluate(where, METADATA)


FILTERS: dict[str, Filter | None] = {
    "none": None,
    "text": Eq("colour", TEXTS[3] or ""),
    "control": In("colour", (TEXTS[4] or "", "")),
    "small float": Eq("price", 1e-7),
    "nested": And((Range("number", gte=-7, lt=20), Not(Eq("flag", True)))),
    "null": IsNull("colour"),
}


@pytest.mark.parametrize("label", FILTERS)
def test_the_native_lane_finds_what_is_true(flat: PgVector, label: str) -> None:
    metric, params = flat._schema.metric, flat.capabilities.indexes["flat"].search()
    where, kept = FILTERS[label], mask(FILTERS[label])
    for returning in Returning:
        assert CHECK.native_recall(flat, metric, params, where, kept, returning) == 1.0
    assert CHECK.client_recall(flat, metric, params, where, kept) == 1.0


def test_ef_search_decides_recall_in_both_lanes(graph: PgVector) -> None:
    recalls = []
    for ef in (K, 400):
        params = PgHnswSearch(ef_search=ef)
        found = CHECK.client_recall(graph, Metric.L2, params)
        assert CHECK.native_recall(graph, Metric.L2, params) == pytest.approx(found)
        recalls.append(found)
    assert recalls[0] < recalls[1] - 0.05


def test_a_filter_gets_full_answers_where_the_scan_goes_on(graph: PgVector) -> None:
    where = And((Eq("flag", True), Range("price", gt=0.0, lt=1.0)))  # neither has an index
    for scan in (None, HnswScan.STRICT, HnswScan.RELAXED):
        params = PgHnswSearch(ef_search=K, iterative_scan=scan)
        for query in QUERIES:
            ids, scores = graph.searcher(K, params, where)(query)
            assert len(ids) == K
            assert (np.diff(scores) >= 0).all()
        found = CHECK.client_recall(graph, Metric.L2, params, where, mask(where))
        native = CHECK.native_recall(graph, Metric.L2, params, where, mask(where))
        assert native == pytest.approx(found)
    off = PgHnswSearch(ef_search=K, iterative_scan=HnswScan.OFF)
    assert min(len(graph.searcher(K, off, where)(query)[0]) for query in QUERIES) < K


def test_lists_are_looked_at_and_sorted(server: Server, tmp_path: Path) -> None:
    store = made(server, tmp_path / "ivf", Metric.L2, "ivf_flat", nlist=20)
    recalls = []
    for probes in (1, 20):
        params = PgIvfSearch(nprobe=probes)
        recalls.append(CHECK.client_recall(store, Metric.L2, params))
        assert CHECK.native_recall(store, Metric.L2, params) == pytest.approx(recalls[-1])
    assert recalls[0] < 0.95
    assert recalls[1] == 1.0
    for scan in (None, IvfScan.RELAXED):
        search = store.searcher(K, PgIvfSearch(iterative_scan=scan), Eq("flag", True))
        for query in QUERIES:
            ids, scores = search(query)
            assert len(ids) == K
            assert (np.diff(scores) >= 0).all()
    store.drop()
    store.close()


def test_an_index_that_was_not_built_is_missed(server: Server, tmp_path: Path) -> None:
    tmp_path.joinpath("bare").mkdir()
    store = PgVector(tmp_path / "bare", server.address)
    store.create(schema(), Index("hnsw", PgHnswBuild()))
    with pytest.raises(StoreError, match="was build called"):
        store.wait_indexed()
    from psycopg.errors import ProgramLimitExceeded

    most = store.capabilities.indexes["hnsw"].most_dim
    store.create(Schema(2_001, Metric.L2), Index("hnsw", PgHnswBuild()))
    with pytest.raises(ProgramLimitExceeded, match=f"more than {most} dimensions"):
        store.build()
    with pytest.raises(ValidationError, match="at least 2 m"):
        PgHnswBuild(m=40)
    store.close()


def test_rows_written_over_the_wire_are_as_those_that_the_client_writes(
    server: Server, flat: PgVector, tmp_path: Path
) -> None:
    tmp_path.joinpath("wire").mkdir()
    store = PgVector(tmp_path / "wire", server.address)
    store.durability = Durability.BUFFERED
    store.create(schema(), Index("flat", store.capabilities.indexes["flat"].build()))
    native = store.native_rows()
    assert native.target["options"]["set.synchronous_commit"] == "off"
    columns = columns_of(METADATA, native.columns)

    def ask(operation: str, ids: NDArray[np.int64], vectors: Any = None) -> None:
        written = () if vectors is None else columns
        told = send(native, operation, ids, vectors, written, batch=128, clients=2)["classes"][0]
        assert told["recorder"].errors() == []
        assert told["rows"] == len(ids)

    ask("insert", IDS, VECTORS)
    assert store.count() == ROWS
    order = [("id", "ascending")]
    assert store.get(IDS).sort_by(order).equals(flat.get(IDS).sort_by(order))
    ask("get", IDS[:200])
    ask("upsert", IDS, VECTORS[::-1].copy())
    (vector,) = store.get(IDS[5:6]).column("vector").to_pylist()
    np.testing.assert_array_equal(np.float32(vector), VECTORS[ROWS - 6])
    ask("delete", IDS[:200])
    assert store.count() == ROWS - 200
    store.drop()
    store.close()


def test_what_was_acknowledged_survives_a_crash(tmp_path: Path) -> None:
    require_startable(POSTGRES)
    with make_server(POSTGRES, tmp_path / "server") as own:
        store = made(own, tmp_path / "crash", Metric.COSINE, "hnsw", workers=0)
        assert store.footprint().index_bytes
        assert untested_note(PgVector, store.version()) is None
        store.close()
        own.kill()
        own.restart()
        again = PgVector(tmp_path / "crash", own.address)
        again.open(schema(Metric.COSINE), Index("hnsw", PgHnswBuild()))
        assert again.count() == ROWS
        assert again.searcher(1, PgHnswSearch())(VECTORS[7])[0].tolist() == [IDS[7]]
        with pytest.raises(StoreError, match="no collection"):
            PgVector(tmp_path / "other", own.address).open(schema(), Index("hnsw", PgHnswBuild()))
        assert set(own.processes()) == {"server"}


def test_passwords_are_asked_for_and_kept(server: Server, tmp_path: Path) -> None:
    """Over scram, as every server but our own would; a wrong one is told at once."""
    with connect(server.address) as admin:
        (config,) = admin.execute("SHOW hba_file").fetchone()
        admin.execute("DROP ROLE IF EXISTS guest")
        admin.execute("CREATE ROLE guest SUPERUSER LOGIN PASSWORD 's''ecret ü'")
        before = Path(config).read_text()
        Path(config).write_text(f"host all guest 127.0.0.1/32 scram-sha-256\n{before}")
        admin.execute("SELECT pg_reload_conf()")
    known = Address(server.address.host, server.address.ports, {"user": "guest"})
    right = Address(known.host, known.ports, {"user": "guest", "password": "s'ecret ü"})
    wrong = Address(known.host, known.ports, {"user": "guest", "password": "not this one"})
    for stranger in (known, wrong):
        with pytest.raises(AccessRefused, match=r"password.*VECTRIAL_POSTGRES_PASSWORD") as told:
            ready(POSTGRES, stranger)
        assert "not this one" not in str(told.value)
    ready(POSTGRES, right)
    tmp_path.joinpath("guest").mkdir()
    store = PgVector(tmp_path / "guest", right)
    store.create(schema(), Index("flat", store.capabilities.indexes["flat"].build()))
    store.insert(batch_of(schema(), IDS, VECTORS, COLUMNS))
    assert CHECK.native_recall(store, Metric.L2, store.capabilities.indexes["flat"].search()) == 1.0
    assert "ecret" not in repr(right)
    store.drop()
    store.close()


def test_standbys_follow_the_first_node_and_take_no_writes(tmp_path: Path) -> None:
    from psycopg.errors import ReadOnlySqlTransaction

    require_startable(POSTGRES)
    with LocalCluster(POSTGRES, 2, tmp_path / "cluster") as cluster:
        first, second = cluster.address.nodes
        tmp_path.joinpath("rows").mkdir()
        store = PgVector(tmp_path / "rows", cluster.address)
        store.create(schema(), Index("hnsw", PgHnswBuild(workers=0)))
        native = store.native_rows()
        columns = columns_of(METADATA, native.columns)
        sent = send(native, "insert", IDS, VECTORS, columns, batch=128, clients=4)
        assert sent["classes"][0]["recorder"].errors() == [], "each went to the first node"
        store.build()
        assert "1 of 1 other nodes show it" in store.wait_indexed()
        with closing(PgVector(tmp_path / "rows", second)) as standby:
            standby.open(schema(), store._index)
            assert standby.count() == ROWS
            with pytest.raises(ReadOnlySqlTransaction):
                standby.delete(IDS[:1])
        cluster.strike(1, Fault.KILL)
        store.delete(IDS[:5])
        cluster.mend(1, Fault.KILL)
        cluster.wait_ready()
        store.wait_indexed()
        with closing(PgVector(tmp_path / "rows", second)) as standby:
            standby.open(schema(), store._index)
            assert standby.count() == ROWS - 5, "it has what it missed"
        wrong = replace(second, nodes=(second, first))
        with pytest.raises(ServerError, match="follows another node: give the node that"):
            ready(POSTGRES, wrong)
        store.close()
