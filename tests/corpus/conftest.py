"""The command in this process, in an empty folder, and what it leaves there."""

from __future__ import annotations

import signal
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import command_calls
import pytest
import typer
from command_calls import Call

from vectrial.cli import app as gathered
from vectrial.cli import run as run_command

#: Seconds after which a case hangs. It is a watch, not a measure of speed.
WATCH_S = 300


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    """What every call of the command makes anew, and is the same in each."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gathered, "app", typer.main.get_command(gathered.app))
        yield


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command in an empty folder with an empty home."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    # The command's own handler of signals would stay behind.
    nothing = types.SimpleNamespace(signal=lambda *_: None, SIGTERM=15)
    monkeypatch.setattr(run_command, "signal", nothing, raising=False)
    return command_calls.call


@pytest.fixture
def refused(call: Call, tmp_path: Path) -> Callable[..., str]:
    """Run the command, expect that it refuses its input, and return its one line.

    Nothing may be left: no folder of a run, no link to it, no dataset, no temporary file.
    """

    def run(*arguments: str) -> str:
        said = call(*arguments)
        assert said.code == 2, said
        assert "Traceback" not in said.err
        assert said.out == ""
        lines = said.err.splitlines()
        assert lines, "it says nothing"
        if not lines[0].startswith("Usage: "):  # the command line's own refusal has a box
            (message,) = (line for line in lines if line.startswith("vectrial: "))
            assert lines[-1] == message, "one line, and the last word"
            assert len(message) < 1000
        assert not any(ord(one) < 32 and one != "\n" for one in said.err), said.err
        assert left_behind(tmp_path) == []
        return said.err

    return run


def left_behind(folder: Path) -> list[str]:
    """Files and links that are no input of a test; an empty home may have its folders and locks."""
    found = [
        path.relative_to(folder)
        for top in ("place", "home", "temporary")
        for path in (folder / top).rglob("*")
        if path.is_symlink() or path.is_file()
    ]
    return sorted(
        str(path)
        for path in found
        if path.parts[:2] != ("place", "given") and path.suffix not in (".lock", ".toml")
    )


@pytest.fixture
def given(tmp_path: Path, call: Call) -> Path:
    """Where a test puts its input."""
    folder = tmp_path / "place" / "given"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _watch() -> Iterator[None]:
    """A case that hangs fails by itself."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"no end within {WATCH_S} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(WATCH_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
