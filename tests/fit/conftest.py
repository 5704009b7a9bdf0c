"""The `vectrial` command in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.model.placement import Limits
from vectrial.servers.limits import why_no_limits


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def possible() -> None:
    """Skips where no limits can be set."""
    if why := why_no_limits(Limits(0.5, 2**28)):
        pytest.skip(f"this machine sets no limits: {why}")
