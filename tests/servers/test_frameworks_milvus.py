"""Collections that frameworks make in Milvus are measured as the frameworks search them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from framework_collections import searched_as_by_its_application, vectors, written
from measured_collections import K, measured, opened, refused

from vectrial.model.existing import Existing
from vectrial.model.store import Address
from vectrial.stores import registry

pytestmark = [pytest.mark.server("milvus"), pytest.mark.usefixtures("home")]
#: Enough for an index.
GIVEN = vectors(3_000, dim=32)


def test_a_collection_of_langchain(milvus: Address, tmp_path: Path) -> None:
    """The index is the one that the server chooses, and its searches say no parameter."""
    made = written("milvus_by_langchain", milvus, tmp_path / "given", GIVEN)
    found, recall = searched_as_by_its_application("milvus", milvus, made, GIVEN)
    assert (found.index, found.rows, found.id) == ("hnsw", 3_000, "pk")
    assert "AUTOINDEX" in " ".join(found.notes)
    assert recall < 0.95


def test_a_collection_of_llamaindex(milvus: Address, tmp_path: Path) -> None:
    made = written("milvus_by_llamaindex", milvus, tmp_path / "given", GIVEN)
    found, recall = searched_as_by_its_application("milvus", milvus, made, GIVEN)
    assert (found.index, found.rows, found.text_ids) == ("flat", 3_000, True)
    assert recall == 1


def test_partitions_and_a_condition(milvus: Address, tmp_path: Path) -> None:
    """Rows are those of the partitions that are loaded, and those that pass the condition."""
    made = written("milvus_partitions", milvus, tmp_path / "all", GIVEN, "all", "n", "<", "3")
    found, _ = searched_as_by_its_application("milvus", milvus, made, GIVEN)
    assert (found.index, found.rows) == ("ivf_flat", sum(at % 7 < 3 for at in range(3_000)))
    assert not found.notes
    wrong = Existing(made.collection, where="n <")
    refused("milvus", milvus, wrong, "refuses the condition")
    part = written("milvus_partitions", milvus, tmp_path / "one", GIVEN, "p0")
    found, recall = searched_as_by_its_application("milvus", milvus, part, GIVEN)
    assert found.rows == 1_500
    assert "partitions that are loaded: p0" in " ".join(found.notes)
    assert recall < 0.95


def test_both_lanes_leave_the_parameters_to_the_server(milvus: Address, tmp_path: Path) -> None:
    made = written("milvus_partitions", milvus, tmp_path / "given", GIVEN, "p0,p1", "n < 5")
    reading, found, dataset = measured("milvus", milvus, made.existing)
    search = registry.load("milvus").capabilities.indexes[found.index].search
    with closing(opened(reading, found, dataset)) as store:
        own = store.native_search(K, search())
        assert (own.options["params"], own.filter) == ("{}", b"(n < 5)")
        given = search.model_validate({"nprobe": 7, "consistency": "strong"})
        assert store.native_search(K, given).options["params"] == '{"nprobe": 7}'
