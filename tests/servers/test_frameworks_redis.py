"""Indexes that frameworks make in Redis are measured as the frameworks search them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework_collections import (
    as_measured_first,
    check_native_lane,
    overlap,
    searched_as_by_its_application,
    vectors,
    written,
)
from measured_collections import faults_of, measured, opened
from quick_servers import quick_servers

from vectrial.model.errors import UserError
from vectrial.model.existing import Existing
from vectrial.model.store import Address
from vectrial.run.existing import ExistingCollection, describe, read_rows
from vectrial.servers.base import Command
from vectrial.servers.provide import make_server
from vectrial.stores import registry
from vectrial.stores.redis.server import QUERY_ENGINE, REDIS_SEARCH
from vectrial.testing.server_programs import require_startable

pytestmark = pytest.mark.usefixtures("home")

GIVEN = vectors()
STORE = registry.load("redis-search")


@pytest.fixture
def client(redis: Address) -> Iterator[Any]:
    """A client of the server, which has nothing."""
    from vectrial.stores.redis.server import connect

    with closing(connect(redis, 10.0)) as one:
        one.flushall()
        yield one


@pytest.mark.server("redis-search")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("redis_by_redisvl", ()),
        ("redis_by_redisvl", ("two",)),
        ("redis_by_llamaindex", ()),
    ],
)
def test_an_index_of_a_framework(
    script: str, words: tuple[str, ...], redis: Address, client: Any, tmp_path: Path
) -> None:
    made = written(script, redis, tmp_path / "given", GIVEN, *words)
    found, recall = searched_as_by_its_application("redis-search", redis, made, GIVEN)
    assert (found.index, found.rows) == ("hnsw", len(GIVEN.rows))
    assert recall < 0.95, "an exact search would have found the same"


@pytest.mark.server("redis-search")
def test_several_vectors_must_be_told_apart(redis: Address, client: Any, tmp_path: Path) -> None:
    made = written("redis_by_redisvl", redis, tmp_path / "given", GIVEN, "two")
    with pytest.raises(UserError, match="2 fields of vectors"):
        describe(ExistingCollection(STORE, redis, Existing(made.collection)))


@pytest.mark.server("redis-search")
def test_a_filter_of_the_application(redis: Address, client: Any, tmp_path: Path) -> None:
    """Without its condition, all documents were searched: 46 % of its answers."""
    made = written("redis_by_redisvl", redis, tmp_path / "given", GIVEN, "filter")
    found, _ = searched_as_by_its_application("redis-search", redis, made, GIVEN)
    assert found.rows == sum(at % 7 > 2 for at in range(len(GIVEN.rows)))


@pytest.mark.server("redis-search")
@pytest.mark.parametrize(("words", "index"), [((), "flat"), (("graph",), "hnsw")])
def test_a_filter_that_every_document_meets(
    words: tuple[str, ...], index: str, redis: Address, client: Any, tmp_path: Path
) -> None:
    """LangChain sends one with every search, and then the server does not search the graph as it
    does without."""
    made = written("redis_by_langchain", redis, tmp_path / "given", GIVEN, *words)
    found, recall = searched_as_by_its_application("redis-search", redis, made, GIVEN)
    assert (found.index, found.rows) == (index, len(GIVEN.rows))
    if words:
        reading, found, dataset = measured("redis-search", redis, Existing(made.collection))
        without = overlap(as_measured_first(reading, found, dataset, GIVEN), made.answers)
        assert without < recall


@pytest.mark.server("redis-search")
def test_both_lanes_have_the_condition(redis: Address, client: Any) -> None:
    graph = ("TYPE", "FLOAT32", "DIM", 16, "DISTANCE_METRIC", "L2", "M", 4)
    client.execute_command(
        *("FT.CREATE", "books", "PREFIX", 1, "book:", "SCHEMA", "n", "NUMERIC", "INDEXMISSING"),
        *("v", "VECTOR", "HNSW", len(graph), *graph),
    )
    for at, row in enumerate(GIVEN.rows):
        client.hset(f"book:{at}", mapping={"n": at % 7, "v": row.tobytes()})
    existing = Existing("books", where="@n:[0 2] | @n:[6 6]")
    reading, found, dataset = measured("redis-search", redis, existing, columns=("n",))
    assert dataset.rows == sum(at % 7 in (0, 1, 2, 6) for at in range(len(GIVEN.rows)))
    with closing(opened(reading, found, dataset)) as store:
        params = STORE.capabilities.indexes[found.index].search()
        check_native_lane(store, params, dataset.queries)
    wrong = replace(existing, where="@n:[0")
    with pytest.raises(UserError, match="Syntax error"):
        describe(ExistingCollection(STORE, redis, wrong))


@pytest.mark.server("redis-search")
def test_rows_that_change_while_the_index_is_read(redis: Address, client: Any) -> None:
    """No row is read twice, and the gate finds that others are there."""
    graph = ("TYPE", "FLOAT32", "DIM", 16, "DISTANCE_METRIC", "L2")
    about = ("PREFIX", 1, "book:", "SCHEMA", "v", "VECTOR", "FLAT", len(graph), *graph)
    client.execute_command("FT.CREATE", "books", *about)
    many = vectors(12_000).rows

    def write(first: int, last: int) -> None:
        with client.pipeline(transaction=False) as pipe:
            for at in range(first, last):
                pipe.hset(f"book:{at}", mapping={"v": many[at % len(many)].tobytes()})
            pipe.execute()

    write(0, len(many))
    reading = ExistingCollection(STORE, redis, Existing("books"), queries=40)
    found, changed = describe(reading), False

    def progress(done: float, total: float, words: str) -> None:
        nonlocal changed
        if not changed:
            write(len(many), len(many) + 500)  # new
            write(0, 3_000)  # again
            client.delete(*(f"book:{at}" for at in range(11_000, 11_900)))
            changed = True

    dataset = read_rows(reading, found, progress)
    assert changed
    assert len(np.unique(dataset.ids)) == dataset.rows
    with closing(opened(reading, found, dataset)) as store:
        faults = faults_of(store, dataset)
    assert any(fault.startswith("row_count: 11600") for fault in faults), faults


# -- JSON documents --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A server that has JSON documents as well, by a module of the query engine's wheel."""

    def command(*given: Any) -> Command:
        plain = REDIS_SEARCH.command(*given)
        module = QUERY_ENGINE.fetch(print).with_name("rejson.so")
        argv = (*plain.argv, "--loadmodule", str(module))
        return replace(plain, argv=argv, needs=(*plain.needs, module))

    require_startable(REDIS_SEARCH)
    recipe = replace(REDIS_SEARCH, command=command)
    with quick_servers(), make_server(recipe, tmp_path_factory.mktemp("documents")) as server:
        yield server.address


@pytest.mark.server("redis-search")
def test_documents_of_redisvl(documents: Address, tmp_path: Path) -> None:
    """They were refused."""
    from vectrial.stores.redis.server import connect

    made = written("redis_by_redisvl", documents, tmp_path / "given", GIVEN, "json")
    with closing(connect(documents, 10.0)) as client:
        client.execute_command("JSON.SET", "book:nothing", "$", '{"text": "no vector"}')
        client.execute_command("JSON.SET", "book:null", "$", '{"embedding": null}')
    found, recall = searched_as_by_its_application("redis-search", documents, made, GIVEN)
    assert (found.index, found.rows) == ("hnsw", len(GIVEN.rows))
    assert recall < 0.95


@pytest.mark.server("redis-search")
def test_documents_with_integer_ids_and_numbers(documents: Address) -> None:
    """Both lanes, a filter on numbers that some documents lack, and a condition."""
    from vectrial.stores.redis.server import connect

    graph = ("TYPE", "FLOAT32", "DIM", 16, "DISTANCE_METRIC", "L2", "M", 4)
    schema = ("$.n", "AS", "n", "NUMERIC", "INDEXMISSING", "$.about.v", "AS", "v", "VECTOR", "HNSW")
    several = ("$.parts[*].v", "AS", "v", "VECTOR", "HNSW", len(graph), *graph)
    with closing(connect(documents, 10.0)) as client:
        start = ("ON", "JSON", "PREFIX", 1)
        client.execute_command(
            "FT.CREATE", "numbered", *start, "b:", "SCHEMA", *schema, len(graph), *graph
        )
        client.execute_command("FT.CREATE", "parts", *start, "p:", "SCHEMA", *several)
        for at, row in enumerate(GIVEN.rows):
            document: dict[str, Any] = {"about": {"v": row.tolist()}}
            if at % 7:
                document["n"] = at % 7
            client.execute_command("JSON.SET", f"b:{at}", "$", json.dumps(document))
    existing = Existing("numbered")
    reading, found, dataset = measured("redis-search", documents, existing, columns=("n",))
    assert (dataset.rows, found.text_ids) == (len(GIVEN.rows), False)
    assert dataset.metadata is not None
    assert dataset.metadata.column("n").null_count == sum(
        at % 7 == 0 for at in range(len(GIVEN.rows))
    )
    with closing(opened(reading, found, dataset)) as store:
        params = STORE.capabilities.indexes[found.index].search()
        check_native_lane(store, params, dataset.queries)
    _, found, dataset = measured("redis-search", documents, Existing("numbered", where="@n:[3 4]"))
    assert dataset.rows == sum(at % 7 in (3, 4) for at in range(len(GIVEN.rows)))
    with pytest.raises(UserError, match="where there may be several"):
        describe(ExistingCollection(STORE, documents, Existing("parts")))
