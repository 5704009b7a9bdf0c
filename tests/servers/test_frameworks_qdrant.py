"""Collections that frameworks make in Qdrant are measured as the frameworks search them, where
there is a server: no package registry has one."""

from __future__ import annotations

from pathlib import Path

import pytest
from framework_collections import searched_as_by_its_application, vectors, written

from vectrial.model.store import Address

pytestmark = pytest.mark.server("qdrant")
GIVEN = vectors()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "script", ["qdrant_by_langchain", "qdrant_by_haystack", "qdrant_by_llamaindex"]
)
def test_a_collection_of_a_framework(script: str, qdrant: Address, tmp_path: Path) -> None:
    made = written(script, qdrant, tmp_path / "given", GIVEN)
    found, _ = searched_as_by_its_application("qdrant", qdrant, made, GIVEN)
    assert (found.index, found.rows, found.text_ids) == ("hnsw", 600, True)
