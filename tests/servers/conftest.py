"""What tests of several servers need."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, for datasets that are read from collections."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
