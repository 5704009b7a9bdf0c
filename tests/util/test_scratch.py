"""What a killed process leaves half made goes with the next one that makes something there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vectrial.util.scratch import ScratchFolder

HOLDER = """
import sys, time
from pathlib import Path
from vectrial.util.scratch import ScratchFolder
with ScratchFolder(".making-", Path(sys.argv[1])) as folder:
    (folder / "half").write_text("made")
    print(folder, flush=True)
    time.sleep(600)
"""


def holder(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that is making something, and its folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def aged(folder: Path) -> None:
    """Make a folder older than one that was made just now."""
    os.utime(folder, (0, 0))


def test_a_folder_of_a_killed_process_goes_and_one_in_use_stays(tmp_path: Path) -> None:
    (process, folder), (killed, left) = holder(tmp_path), holder(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "half").is_file()
        for one in (folder, left):
            aged(one)
        with ScratchFolder(".other-", tmp_path):
            assert left.exists(), "it is another kind of thing"
        with ScratchFolder(".making-", tmp_path) as own:
            assert not left.exists()
            assert (folder / "half").read_text() == "made"
            assert own.is_dir()
        assert not own.exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", [".making-mine", ".making-.vectrial-scratch.txt", "making"])
def test_what_only_looks_like_one_stays(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    aged(folder)
    with ScratchFolder(".making-", tmp_path):
        pass
    assert folder.is_dir()


def test_one_that_was_made_just_now_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".making-x.vectrial-scratch"
    folder.mkdir()
    with ScratchFolder(".making-", tmp_path):
        pass
    assert folder.is_dir()
    aged(folder)
    scratch = ScratchFolder(".making-", tmp_path)
    assert not folder.exists()
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []
