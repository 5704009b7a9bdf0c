"""The kernel is asked to join free memory where it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.telemetry import compaction
from vectrial.telemetry.environment import environment_facts


def test_it_is_asked_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "compact_memory"
    monkeypatch.setattr(compaction, "_ASK", asked)
    compaction.compact_memory()
    assert environment_facts()["memory"]["compacted"] is False
    assert not asked.exists()
    asked.write_text("")
    compaction.compact_memory()
    assert asked.read_text() == "1"
    assert environment_facts()["memory"]["compacted"] is True
