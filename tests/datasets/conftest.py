"""Each test of this folder has a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
