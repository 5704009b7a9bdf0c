"""Indexes that frameworks make in Elasticsearch and OpenSearch are measured as the frameworks
search them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from framework_collections import searched_as_by_its_application, vectors, written
from http_front import Reply, http_front
from measured_collections import measured, opened, refused

from vectrial.model.existing import Existing
from vectrial.model.store import Address, Store
from vectrial.servers.base import AccessRefused
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry

pytestmark = pytest.mark.usefixtures("home")

GIVEN = vectors()
#: What frameworks ask first. The distribution for tests has no answer to it.
ROOT = Reply(
    200,
    {
        "name": "front",
        "cluster_name": "vectrial",
        "version": {"number": "8.19.21", "build_flavor": "default"},
        "tagline": "You Know, for Search",
    },
    {"x-elastic-product": "Elasticsearch"},
)
FORBIDDEN = Reply(
    403,
    {"error": {"type": "security_exception", "reason": "action is unauthorized"}, "status": 403},
)
#: Where anybody who is known is told who it is, and the answer.
IDENTITY = ("/_security/_authenticate", "/_plugins/_security/authinfo")
READER = Reply(200, {"username": "reader", "roles": ["narrow"]})


@pytest.mark.server("elasticsearch")
@pytest.mark.parametrize("script", ["elasticsearch_by_langchain", "elasticsearch_by_haystack"])
def test_an_index_of_elasticsearch(script: str, elasticsearch: Address, tmp_path: Path) -> None:
    """Its vectors are of 8 bits, as the server chooses, and are missed for it."""
    with front(elasticsearch, {"/": ROOT}) as whole:
        made = written(script, whole, tmp_path / "given", GIVEN)
    found, recall = searched_as_by_its_application("elasticsearch", elasticsearch, made, GIVEN)
    assert (found.index, found.rows) == ("int8_hnsw", 600)
    assert recall < 0.95


@pytest.mark.server("elasticsearch")
def test_aliases_of_elasticsearch(elasticsearch: Address, tmp_path: Path) -> None:
    """One stands for an index; one for those of its rows that pass a filter, as a condition of the
    application does; one for two indexes."""
    for alias, rows in (("books", 600), ("sold", sum(at % 7 < 3 for at in range(600)))):
        made = written("elasticsearch_alias", elasticsearch, tmp_path / alias, GIVEN, alias)
        found, recall = searched_as_by_its_application("elasticsearch", elasticsearch, made, GIVEN)
        assert (found.index, found.rows) == ("hnsw", rows)
        assert recall < 1 or alias == "sold"  # few rows are scanned
    condition = '{"range": {"n": {"lt": 3}}}'
    same = replace(made, collection="books", options={"where": condition})
    found, _ = searched_as_by_its_application("elasticsearch", elasticsearch, same, GIVEN)
    assert found.rows == rows
    refused("elasticsearch", elasticsearch, Existing("all-books"), "stands for 2 indexes")
    for where, words in (
        ("n < 3", "is no JSON"),
        ("3", "is no query"),
        ('{"nothing": {}}', "refuses the condition"),
    ):
        refused("elasticsearch", elasticsearch, Existing("books", where=where), words)


@pytest.mark.server("elasticsearch")
def test_nested_chunks_of_elasticsearch_are_refused(elasticsearch: Address, tmp_path: Path) -> None:
    made = written("elasticsearch_nested", elasticsearch, tmp_path / "given", GIVEN)
    words = r"in nested documents \(chunks.vector\), several in a row"
    refused("elasticsearch", elasticsearch, made.existing, words)


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(name, marks=pytest.mark.server(name))
        for name in ("elasticsearch", "opensearch")
    ],
)
def test_a_role_that_may_only_read_an_index(store: str, request: pytest.FixtureRequest) -> None:
    """It may ask neither for the cluster nor for nodes, and not refresh. The distributions for
    tests have no roles: what stands in front answers as a whole one does."""
    address: Address = request.getfixturevalue(store)
    kind = registry.load(store)
    with _writer(kind, address) as client:
        vector: dict[str, Any] = {"type": "dense_vector", "dims": 16, "similarity": "l2_norm"}
        if store == "opensearch":
            method = {"name": "hnsw", "engine": "lucene"}
            vector = {"type": "knn_vector", "dimension": 16, "method": method}
        client.indices.create(
            index="narrow",
            body={
                "settings": {"index": {"knn": True}} if store == "opensearch" else {},
                "mappings": {"properties": {"embedding": vector}},
            },
        )
        lines: list[Any] = []
        for at, row in enumerate(GIVEN.rows):
            lines += [{"index": {"_id": str(at)}}, {"embedding": row.tolist()}]
        client.bulk(index="narrow", body=lines, refresh=True)
    paths = ("/", "/_nodes", "/_cluster", "/_cat", "/_stats", "/narrow/_refresh")
    forbidden = dict.fromkeys(paths, FORBIDDEN)
    recipe = recipe_of(kind)
    assert recipe is not None
    nobody = {**forbidden, **dict.fromkeys(IDENTITY, FORBIDDEN)}
    with front(address, nobody) as closed, pytest.raises(AccessRefused):
        recipe.ready(closed)
    with front(address, {**forbidden, **dict.fromkeys(IDENTITY, READER)}) as narrow:
        recipe.ready(narrow)
        reading, found, dataset = measured(store, narrow, Existing("narrow"))
        assert found.rows == 600
        with closing(opened(reading, found, dataset)) as attached:
            assert attached.version().startswith("not known")


@pytest.mark.server("opensearch")
@pytest.mark.parametrize("script", ["opensearch_by_langchain", "opensearch_by_haystack"])
def test_an_index_of_opensearch(script: str, opensearch: Address, tmp_path: Path) -> None:
    """Its documents derive their vectors from the index, and the application can still have them
    when they have been read."""
    made = written(script, opensearch, tmp_path / "given", GIVEN)
    found, _ = searched_as_by_its_application("opensearch", opensearch, made, GIVEN)
    assert (found.index, found.rows) == ("hnsw", 600)
    with _writer(registry.load("opensearch"), opensearch) as client:
        (settings,) = client.indices.get_settings(index=made.collection).values()
        assert settings["settings"]["index"]["knn.derived_source"]["enabled"] == "true"
        body = {"size": 3, "_source": [found.vector]}
        hits = client.search(index=made.collection, body=body)["hits"]["hits"]
        assert all(len(hit["_source"][found.vector]) == found.dim for hit in hits)


@contextmanager
def front(address: Address, replies: Mapping[str, Reply]) -> Iterator[Address]:
    """The address of what stands in front of a server; see `http_front`."""
    with http_front(address.ports["http"], replies) as port:
        yield replace(address, ports={**address.ports, "http": port})


@contextmanager
def _writer(kind: type[Store], address: Address) -> Iterator[Any]:
    """The store's official client, which may do everything."""
    store = kind(Path(), address)
    try:
        yield store._client  # type: ignore[attr-defined]
    finally:
        store.close()
