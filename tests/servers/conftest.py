"""What tests of several servers need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from measured_collections import served

from vectrial.model.store import Address


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, for datasets that are read from collections."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))


def _server(store: str) -> object:
    @pytest.fixture(scope="module")
    def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
        yield from served(store, tmp_path_factory.mktemp(store))

    return address


#: The address of a server of each store, the same for all tests of a module.
elasticsearch, milvus, opensearch = map(_server, ("elasticsearch", "milvus", "opensearch"))
postgres, qdrant, redis = map(_server, ("pgvector", "qdrant", "redis-search"))
weaviate = _server("weaviate")
