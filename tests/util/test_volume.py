"""A disk of one's own: what a power cut leaves of it, and what is left of it afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_thread import in_own_thread

from vectrial.util.volume import NoVolume, Volume, why_no_volume

pytestmark = pytest.mark.skipif(bool(why_no_volume()), reason=why_no_volume() or "never")
SIZE = 48 << 20
#: Writes a line to a file that it syncs, and one to another that it does not, and says so.
WRITER = """
import os, sys
synced, lazy = (os.open(sys.argv[1] + name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                for name in ("/synced", "/lazy"))
for at in range(10**6):
    os.write(synced, b"%09d\\n" % at)
    os.fsync(synced)
    os.write(lazy, b"%09d\\n" % at)
    print(at, flush=True)
"""


@in_own_thread
def test_of_a_power_cut_what_was_synced_is_left(tmp_path: Path) -> None:
    with Volume(tmp_path / "image", tmp_path / "disk", SIZE) as disk:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(disk.folder)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        while (acknowledged := int(writer.stdout.readline())) < 50:
            pass
        writer.send_signal(signal.SIGSTOP)
        disk.cut_power(writer.kill)
        acknowledged += len(writer.stdout.readlines())
        writer.wait()
        synced = (disk.folder / "synced").read_text().splitlines()
        lazy = disk.folder / "lazy"
        assert acknowledged + 1 <= len(synced) <= acknowledged + 2
        assert not lazy.exists() or lazy.stat().st_size < 10 * len(synced)
    assert [one.name for one in tmp_path.iterdir()] == ["disk"]
    assert not list((tmp_path / "disk").iterdir())


@in_own_thread
def test_shared_memory_is_of_its_own_and_as_empty_as_after_a_power_cut(tmp_path: Path) -> None:
    shared = Path("/dev/shm")
    with Volume(tmp_path / "image", tmp_path / "disk", SIZE) as disk:
        assert not list(shared.iterdir())
        (shared / "folder").mkdir()
        subprocess.run(["touch", "/dev/shm/rows", "/dev/shm/folder/rows"], check=True)
        assert {path.name for path in shared.iterdir()} == {"rows", "folder"}
        disk.cut_power(lambda: None)
        assert not list(shared.iterdir())


@in_own_thread
def test_a_full_disk_takes_nothing_until_it_is_released(tmp_path: Path) -> None:
    with Volume(tmp_path / "image", tmp_path / "disk", SIZE) as disk:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "more").write_bytes(bytes(100_000))
        disk.release()
        (disk.folder / "more").write_bytes(bytes(100_000))


def test_it_is_gone_with_the_process_that_made_it(tmp_path: Path) -> None:
    """Even if that is killed."""
    made = f"""
import time
from pathlib import Path
from vectrial.util.volume import Volume
with Volume(Path({str(tmp_path / "image")!r}), Path({str(tmp_path / "disk")!r}), {SIZE}) as disk:
    (disk.folder / "there").write_text("yes")
    print("made", flush=True)
    time.sleep(60)
"""
    maker = subprocess.Popen([sys.executable, "-c", made], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "made\n"
    assert not list((tmp_path / "disk").iterdir()), "others do not see it"
    maker.kill()
    maker.wait()
    ends = time.monotonic() + 60
    while (held := _holds(tmp_path / "image")) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not held


def _holds(image: Path) -> bool:
    """Whether a loop device holds the image."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return any(_read(one).startswith(str(image)) for one in files)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # its loop device has just been given back
        return ""


def test_what_is_no_file_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoVolume, match="16 MiB"), Volume(tmp_path / "i", tmp_path / "d", 1000):
        pass
