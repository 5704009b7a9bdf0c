"""The kernel is asked to join free memory where it may be."""

from __future__ import annotations

import mmap
from pathlib import Path

import psutil
import pytest

from vectrial.telemetry import compaction
from vectrial.telemetry.environment import environment_facts


def test_it_is_asked_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "compact_memory"
    monkeypatch.setattr(compaction, "_ASK", asked)
    with compaction.memory_in_large_pieces():
        assert environment_facts()["memory"]["compacted"] is False
        assert not asked.exists()
    asked.write_text("")
    pieces = tmp_path / "buddyinfo"
    pieces.write_text("Node 0, zone   Normal  100 10 0 0 0 0 0 0 0 7 9\n")
    monkeypatch.setattr(compaction, "_PIECES", pieces)
    held_bytes = 120 * mmap.PAGESIZE
    assert compaction._small_piece_bytes() == held_bytes
    with compaction.memory_in_large_pieces():
        assert asked.read_text() == "1"
        assert environment_facts()["memory"]["compacted"] is True
    pieces.unlink()
    with compaction.memory_in_large_pieces():
        assert compaction._small_piece_bytes() == 0


def test_what_is_held_is_resident_while_it_is_held() -> None:
    def resident() -> int:
        rss: int = psutil.Process().memory_info().rss
        return rss

    size, before = 64 << 20, resident()
    with compaction._ballast(size):
        assert resident() >= before + 0.9 * size
    assert resident() < before + 0.5 * size
