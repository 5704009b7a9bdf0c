"""A separate file system for a store's data, for simulated power cuts and full disks.

It is an ext4 in a file, on a loop device. A power cut leaves the content of the block device at one
moment: data that were written but not synced are only in the page cache, and are lost. The journal
is replayed when the file system is mounted again. A disk with its own write cache may lose more;
this one keeps every block that it was given.

It is mounted in a mount namespace that begins with the first volume of this process: this process
and those that it starts from then on see it, and it vanishes with the last of them, however they
end. They have shared memory (/dev/shm) of their own, too, which a power cut empties: files there
are as lasting as memory. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vectrial.model.errors import VectrialError
from vectrial.util.hiding import separate_mounts

_PROGRAMS = ("mkfs.ext4", "mount", "umount", "cp", "sync")
#: Most attempts to copy the device's content, each needed if the kernel wrote to it meanwhile.
_COPIES = 20
#: Bytes that ext4 takes for itself at least; less is no file system.
_LEAST_BYTES = 16 << 20
_FILLER = ".filler"
_SHARED_MEMORY = Path("/dev/shm")


class NoVolume(VectrialError):
    """The error that no separate file system can be made here; the message says why."""


class Volume:
    """A mounted file system of a given size. As a context manager it exists inside the block.

    Args:
        image: the file that holds it, which is made; sparse: it takes only the space written.
        folder: where it is mounted; made here, and empty.
        size_bytes: size of the file system.
    """

    def __init__(self, image: Path, folder: Path, size_bytes: int) -> None:
        self._image, self.folder, self._size_bytes = image, folder, size_bytes
        self._cut = image.with_suffix(".cut")
        self._mounted = False

    def __enter__(self) -> Volume:
        """Make the file system and mount it.

        Raises:
            NoVolume: it cannot be made here.
        """
        if why := why_no_volume():
            raise NoVolume(why)
        if self._size_bytes < _LEAST_BYTES:
            raise NoVolume(f"a file system needs {_LEAST_BYTES >> 20} MiB at least")
        _own_mounts()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        # Lazy initialisation would write for minutes: the device would never be at rest.
        options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        _run("mkfs.ext4", "-q", "-F", "-m0", "-E", options, str(self._image))
        self._mount()
        return self

    def __exit__(self, *exc: object) -> None:
        self._unmount()
        for path in (self._image, self._cut):
            path.unlink(missing_ok=True)

    def cut_power(self, end: Callable[[], None]) -> int:
        """Reduce it to what a power cut at this moment would leave, mounted in the same place.

        The processes that write to it are stopped already. Their open files belong to the previous
        file system, which disappears with them.

        Args:
            end: ends these processes once the content of the device is known.

        Returns:
            Number of copies of the device until the kernel did not write meanwhile.

        Raises:
            NoVolume: the kernel never was at rest.
        """
        for copies in range(1, _COPIES + 1):  # noqa: B007 - it is returned
            before = self._device_counters()
            # By extents: holes stay holes, and only what was written is read.
            _run("cp", "--sparse=always", str(self._image), str(self._cut))
            if before == self._device_counters():
                break
        else:
            raise NoVolume(f"the kernel wrote to {self.folder} in each of {_COPIES} copies")
        end()
        self._unmount()
        _empty_shared_memory()
        self._cut.replace(self._image)
        self._mount()
        return copies

    def forget(self) -> None:
        """Drop its content from the page cache. No process has a file of it open."""
        _run("umount", str(self.folder))
        self._mounted = False
        with self._image.open("rb") as file:  # a loop device reads and writes it through the cache
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self._mount()

    def sync(self) -> None:
        """Write the page cache to the device."""
        _run("sync", "-f", str(self.folder))

    def fill(self) -> int:
        """Take all free space; returns the bytes taken."""
        free = shutil.disk_usage(self.folder).free
        with (self.folder / _FILLER).open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, free))
        # What fallocate could not take in one piece is taken block by block.
        with (self.folder / _FILLER).open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return (self.folder / _FILLER).stat().st_size

    def release(self) -> None:
        """Give back the space that `fill` took."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-o", "loop,noatime", str(self._image), str(self.folder))
        self._mounted = True

    def _unmount(self) -> None:
        """Unmount at once, even if a process that is ending has files open."""
        if self._mounted:
            _run("umount", "-l", str(self.folder))
            self._mounted = False

    def _device_counters(self) -> str:
        """The counters of the block device."""
        device = self.folder.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        return Path(f"/sys/dev/block/{number}/stat").read_text()


def why_no_volume() -> str:
    """Why no volume can be made on this machine; empty if one can."""
    if os.geteuid() != 0:
        return "a file system of its own needs root"
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f"there is no '{program}' here (Debian: e2fsprogs, mount)"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices here (/dev/loop-control)"
    return ""


_OWN = threading.local()


def _own_mounts() -> None:
    """Give this thread, and what it starts, its own mounts; the machine's mounts still appear."""
    if getattr(_OWN, "made", False):
        return
    try:
        separate_mounts()
    except OSError as error:
        raise NoVolume(f"no mounts of its own: {os.strerror(error.errno or 0)}") from error
    _run("mount", "--make-rshared", "/")  # a measuring process with mounts of its own follows them
    if _SHARED_MEMORY.is_dir():
        _run("mount", "-t", "tmpfs", "-o", "mode=1777", "vectrial", str(_SHARED_MEMORY))
    _OWN.made = True


def _empty_shared_memory() -> None:
    """Remove all files in the shared memory of this thread and of what it started."""
    for path in _SHARED_MEMORY.iterdir() if getattr(_OWN, "made", False) else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoVolume(f"{argv[0]}: {done.stderr.strip() or done.returncode}")
