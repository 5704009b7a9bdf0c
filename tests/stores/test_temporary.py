"""A store beside the one that is measured: of its kind, in a place of its own, and then gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.stores.common.temporary import temporary_store
from vectrial.stores.memory import MemoryStore


def test_it_starts_in_an_empty_place_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "left over").write_text("by a run that was killed")
    with temporary_store(MemoryStore, place) as store:
        assert not list(place.iterdir())
        (store.location / "file").write_text("the store's")
    assert not place.exists()


def test_it_is_gone_when_the_block_fails_too(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="in the block"),
        temporary_store(MemoryStore, tmp_path / "place"),
    ):
        raise RuntimeError("in the block")
    assert not (tmp_path / "place").exists()
