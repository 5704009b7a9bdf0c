"""A small real suite, run through the command line as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import InProcess, Recorded
from small_suite import SUITE, Done, Inside, Vectrial

from vectrial.cli import main as command
from vectrial.run import runner


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="session")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, "VECTRIAL_HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture
def vectrial(tmp_path: Path, variables: dict[str, str]) -> Vectrial:
    """Run the command in an empty folder and return what it printed."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "vectrial.cli.main", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=variables,
            timeout=570,
            check=False,
        )

    return run


@pytest.fixture
def inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Inside:
    """Run the command in this process and an empty folder: what it calls can be replaced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["vectrial", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process measure in it."""
    monkeypatch.setattr(runner, "JobRunner", InProcess)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of this process record their trials without measuring them."""
    monkeypatch.setattr(runner, "JobRunner", Recorded)
