"""The words of texts in the Flight reference server: BM25 and fusion worked out by hand, rows that
come, change and go, and what stays when the server is started again."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.fusion import Blend, Fusion
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import Server
from vectrial.servers.provide import make_server, prepare
from vectrial.stores.common.arrow import batch_of
from vectrial_reproduce.stores.flight import text as flight_text
from vectrial_reproduce.stores.flight.reference.server import Reference
from vectrial_reproduce.stores.flight.reference.text import Texts
from vectrial_reproduce.stores.flight.server import FLIGHT
from vectrial_reproduce.stores.flight.store import FlightStore, connect

pytestmark = pytest.mark.server("flight")

DIM, K = 8, 10
FIELDS = (Field("about", FieldType.STRING, text=True), Field("number", FieldType.INT))
SCHEMA = Schema(DIM, Metric.L2, FIELDS)
RNG = np.random.default_rng(3)


def rows(ids: list[int], texts: list[str | None]) -> pa.RecordBatch:
    """Rows whose vectors follow from their ids."""
    vectors = np.array([np.random.default_rng(abs(id_)).normal(size=DIM) for id_ in ids])
    columns = {"about": texts, "number": [None] * len(ids)}
    return batch_of(SCHEMA, np.array(ids), vectors.astype(np.float32), columns)


def words(texts: Texts, asked: str, most: int = 100) -> dict[int, float]:
    """Ids and scores of what is found."""
    found = texts.best("about", asked, most)
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


# -- the index -----------------------------------------------------------------------------


def test_scores_are_bm25_by_the_formula() -> None:
    """Worked out here, since what judges answers must not be what makes them."""
    told = {7: "red fish", -3: "Red red FISH", 0: "blue", 9: None, 2**62: "a fish of blue, red!"}
    texts = Texts(SCHEMA)
    texts.put(rows(list(told), list(told.values())))
    length = {7: 2, -3: 3, 0: 1, 9: 0, 2**62: 5}
    times = {7: 1, -3: 2, 2**62: 1}
    mean, (n, n_red) = sum(length.values()) / 5, (5, 3)
    idf = math.log(1 + (n - n_red + 0.5) / (n_red + 0.5))
    wanted = {
        id_: idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length[id_] / mean))
        for id_, tf in times.items()
    }
    assert words(texts, "RED") == pytest.approx(wanted)
    assert words(texts, "red red") == pytest.approx({i: 2 * s for i, s in wanted.items()})
    both = words(texts, "red blue")
    assert list(both.values()) == sorted(both.values(), reverse=True)
    assert both.keys() == {7, -3, 0, 2**62}
    assert list(words(texts, "red", 1)) == [-3]


def test_words_are_runs_of_letters_and_digits() -> None:
    texts = Texts(SCHEMA)
    texts.put(rows([1, 2], ["Über-cool: C3PO's foo_bar, 3.0", 'uber "quoted" AND NOT (x:y*']))
    for word in ("über", "COOL", "c3po", "s", "foo", "bar", "3"):
        assert list(words(texts, word)) == [1], word
    for word in ("uber", "not", "x", '"quoted', "y*"):
        assert list(words(texts, word)) == [2], word
    assert words(texts, "coo") == words(texts, "") == words(texts, " -_'\" ") == {}


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.integers(-3, 3), st.sampled_from("abc "))),
        st.tuples(st.just("delete"), st.lists(st.integers(-3, 3))),
        st.tuples(st.just("ask"), st.none()),
    ),
    max_size=12,
)


@given(WRITES)
def test_the_words_found_are_those_of_the_rows_there_are(writes: list[Any]) -> None:
    texts, there = Texts(SCHEMA), dict[int, str]()
    for kind, what in [*writes, ("ask", None)]:
        if kind == "put" and what:
            texts.put(rows(list(what), list(what.values())))
            there |= what
        elif kind == "delete":
            texts.delete(np.array(what, np.int64))
            there = {id_: text for id_, text in there.items() if id_ not in what}
        elif kind == "ask":
            for word in "abc":
                held = {id_ for id_, text in there.items() if text == word}
                assert set(words(texts, word)) == held


def test_of_rows_twice_in_a_batch_the_last_one_counts() -> None:
    texts = Texts(SCHEMA)
    texts.put(rows([1, 1], ["first", "second"]))
    assert (words(texts, "first"), list(words(texts, "second"))) == ({}, [1])


# -- the server ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    prepare(FLIGHT, print)
    with make_server(FLIGHT, tmp_path_factory.mktemp("flight")) as server:
        yield server


TEXTS: list[str | None] = [
    None if at % 17 == 0 else " ".join([*(f"w{n}" for n in RNG.zipf(1.5, 5) % 50), f"only{at}"])
    for at in range(300)
]
IDS = list(range(100, 400))


def loaded(address: Address, location: Path, index: str = "flat") -> FlightStore:
    location.mkdir()
    store = FlightStore(location, address)
    store.create(SCHEMA, Index(index, FlightStore.capabilities.indexes[index].build()))
    for start in range(0, len(IDS), 90):
        part = slice(start, start + 90)
        store.insert(rows(IDS[part], TEXTS[part]))
    store.wait_indexed()
    return store


def found(client: flight.FlightClient, **search: Any) -> dict[int, float]:
    """Ids and scores of a search in the server's own words."""
    ticket = flight.Ticket(json.dumps({"search": search}).encode())
    answer = client.do_get(ticket).read_all()
    return dict(zip(answer["id"].to_pylist(), answer["score"].to_pylist(), strict=True))


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_rankings_are_fused_by_their_ranks(server: Server, tmp_path: Path, alpha: float) -> None:
    store = loaded(server.address, tmp_path / "fused")
    vector = RNG.normal(size=DIM).tolist()
    asked = {"dataset": store._name, "vector": vector, "text_query": "w1 w2 w3 only7"}
    with connect(server.address) as client:
        dense = found(client, **asked, alpha=1.0, k=30)
        assert dense == found(client, dataset=store._name, vector=vector, k=30)
        text = found(client, **asked, alpha=0.0, k=30)
        assert text == found(client, dataset=store._name, text_query="w1 w2 w3 only7", k=30)
        wanted: dict[int, float] = defaultdict(float)
        for ranking, weight in ((dense, alpha), (text, 1 - alpha)):
            for rank, id_ in enumerate(ranking, 1):
                wanted[id_] += weight / (60 + rank)
        fused = found(client, **asked, alpha=alpha, k=K, candidates=30)
        best = sorted(wanted, key=lambda id_: (-wanted[id_], id_))[:K]
        assert list(fused) == best
        assert fused == pytest.approx({id_: wanted[id_] for id_ in best}, rel=1e-6)
        search = {**asked, "alpha": alpha, "k": K}
        beside = {"search": search, "vectrial": {"candidates": 30, "text_field": "about"}}
        answer = client.do_get(flight.Ticket(json.dumps(beside).encode())).read_all()
        assert answer["id"].to_pylist() == best
        usual = found(client, **asked, alpha=alpha, k=K)
        assert usual == found(client, **asked, alpha=alpha, k=K, candidates=2 * K)
        action = flight.Action("VectorSearch", json.dumps({**asked, "alpha": alpha}).encode())
        (result,) = client.do_action(action)
        again = pa.ipc.open_stream(result.body).read_all()
        assert again["id"].to_pylist() == list(usual)
    store.drop()
    store.close()


def test_a_search_has_no_members_that_longbow_refuses() -> None:
    known = {"dataset", "vector", "k", "filters", "text_query", "alpha"}
    for alpha in (0.0, 0.5):
        ticket = flight_text.build_query({"dataset": "d", "k": 3}, blend(alpha), "about")(
            [1.0], "red fish"
        )
        assert ticket["search"].keys() == known - {"filters"} - ({"vector"} if not alpha else set())
        assert ticket["search"]["text_query"] == "red fish"


def test_rows_that_change_and_go_take_their_words_along(server: Server, tmp_path: Path) -> None:
    store = loaded(server.address, tmp_path / "changed", "hnsw")
    search = store.hybrid_searcher(K, FlightStore.capabilities.indexes["hnsw"].search(), blend(0))
    nowhere = np.zeros(DIM, np.float32)

    def ids(text: str) -> list[int]:
        return search(nowhere, text)[0].tolist()

    assert (ids("only5"), ids("only6"), ids("only0")) == ([105], [106], [])
    store.upsert(rows([105, 999], ["changed", None]))
    store.delete(np.array([106]))
    assert (ids("only5"), ids("changed"), ids("only6")) == ([], [105], [])
    assert ids("only7 changed only6") in ([105, 107], [107, 105])
    store.drop()
    store.close()


def blend(alpha: float, candidates: int = 100) -> Blend:
    return Blend("about", alpha, Fusion.RECIPROCAL_RANK, candidates)


@pytest.mark.parametrize("index", ["flat", "hnsw"])
def test_words_are_there_again_after_a_crash(tmp_path: Path, index: str) -> None:
    with make_server(FLIGHT, tmp_path / "server") as server:
        store = loaded(server.address, tmp_path / "kept", index)
        store.upsert(rows([105], ["changed"]))
        store.delete(np.array([106]))
        store.flush()
        store.upsert(rows([107], ["lost"]))
        server.kill()
        server.restart()
        kind = FlightStore.capabilities.indexes[index]
        again = FlightStore(tmp_path / "kept", server.address)
        again.open(SCHEMA, Index(index, kind.build()))
        search = again.hybrid_searcher(K, kind.search(), blend(0))
        nowhere = np.zeros(DIM, np.float32)
        for text, ids in {
            "only8": [108], "only7": [107], "lost": [],
            "only5": [], "changed": [105], "only6": [],
        }.items():  # fmt: skip
            assert search(nowhere, text)[0].tolist() == ids, text
        again.upsert(rows([107], ["later"]))
        assert search(nowhere, "only7")[0].tolist() == []
        store.close()
        again.close()


def test_rows_that_come_over_the_wire_are_found_by_their_words(
    server: Server, tmp_path: Path
) -> None:
    location = tmp_path / "wire"
    location.mkdir()
    store = FlightStore(location, server.address)
    schema = Schema(DIM, Metric.L2, FIELDS[:1])
    store.create(schema, Index("flat", NoParams()))
    native, ids = store.native_rows(), np.arange(200, dtype=np.int64)
    vectors = RNG.normal(size=(200, DIM)).astype(np.float32)
    about = {"name": "about", "values": [f"row{at}" for at in ids], "valid": ids % 2 == 0}
    insert = Requests(
        "insert", "insert", vectors, ids, [about], batch=50, options=native.options, once=True
    )
    outcome = drive(native.target, [insert], [closed(2)])
    assert outcome["classes"][0]["recorder"].errors() == []
    search = store.hybrid_searcher(K, NoParams(), blend(0))
    assert search(vectors[0], "row44 row45")[0].tolist() == [44]
    store.drop()
    store.close()


def test_waiting_leaves_nothing_to_be_indexed_by_the_first_search(tmp_path: Path) -> None:
    with Reference("grpc://127.0.0.1:0", tmp_path / "server") as reference:
        address = Address("127.0.0.1", {"grpc": reference.port})
        store = loaded(address, tmp_path / "store")
        texts = reference._datasets.get(store._name)._texts
        assert texts is not None
        store.upsert(rows([1], ["late"]))
        assert texts._written
        store.wait_indexed()
        assert not texts._written
        assert list(words(texts, "late")) == [1]
        store.close()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"alpha": 1.5}, "between 0 and 1"),
        ({"alpha": -1}, "between 0 and 1"),
        ({"filters": [{"field": "n", "op": "==", "value": 1}]}, "takes no filters"),
        ({}, "text_field names a column with a full-text index: a, b"),
        ({"text_field": "c"}, "'c' has no full-text index"),
        ({"alpha": 0.5, "text_field": "a", "vector": [1.0]}, "a query has 1 components"),
        ({"dataset": "bare"}, "no column with a full-text index"),
    ],
)
def test_a_search_by_text_that_makes_no_sense_is_refused(
    server: Server, asked: dict[str, Any], says: str
) -> None:
    with connect(server.address) as client:
        made(client, "two", ["a", "b"])
        made(client, "bare", [])
        with pytest.raises(flight.FlightServerError, match=says):
            found(client, **{"dataset": "two", "text_query": "w1", "k": 3, **asked})
        assert found(client, dataset="two", text_query="w1", text_field="b", k=3) == {}


def test_a_column_without_texts_is_not_indexed_by_its_words(server: Server) -> None:
    with connect(server.address) as client:
        for column in ("n", "nowhere"):
            with pytest.raises(flight.FlightServerError, match=f"no column of strings '{column}'"):
                made(client, f"wrong-{column}", [column])


def made(client: flight.FlightClient, name: str, texts: list[str]) -> None:
    """A dataset without rows, as its first put asks for it."""
    vector = pa.list_(pa.float32(), DIM)
    columns = {"a": pa.string(), "b": pa.string(), "c": pa.string(), "n": pa.int64()}
    schema = pa.schema({"id": pa.int64(), "vector": vector, **columns})
    told = schema.with_metadata({"vectrial.text": json.dumps(texts)})
    writer, _ = client.do_put(flight.FlightDescriptor.for_path(name), told)
    writer.close()
