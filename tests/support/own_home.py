"""A home of each test's own, for what is kept there (truth, datasets)."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
