"""The disk of a job's data, where the placement asks for one of its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vectrial.model.errors import Unsupported
from vectrial.model.placement import Placement, size_bytes
from vectrial.servers.base import Server
from vectrial.util.volume import NoVolume, Volume


class DataDisk:
    """A file system for the data of one job, for power cuts and full disks; or the reason why there
    is none.

    Args:
        placement: says whether a disk is requested, and its size. image: the file that holds it.
        folder: the mount point.
    """

    def __init__(self, placement: Placement, image: Path, folder: Path) -> None:
        self._volume: Volume | None = None
        self._why = "set data_disk in [placement]"
        if placement.data_disk is not None:
            self._volume = Volume(image, folder, size_bytes(placement.data_disk))

    def mount(self) -> None:
        """Make and mount the disk, if it is requested and possible here."""
        if self._volume is not None:
            try:
                self._volume.__enter__()
            except NoVolume as error:
                self._volume, self._why = None, str(error)

    def unmount(self) -> None:
        """Unmount and remove the disk with its contents. Calling it twice is harmless."""
        volume, self._volume = self._volume, None
        if volume is not None:
            volume.__exit__(None, None, None)

    def sync(self) -> None:
        """Flush the system's cache to the disk, as if the server had run for long."""
        if self._volume is not None:
            self._volume.sync()

    def cut_power(self, server: Server | None) -> None:
        """Leave on the disk what a power cut would leave. A server is killed and not started again;
        other processes that write to the disk have been paused before.

        Raises:
            Unsupported: a power cut is not possible.
        """
        volume = self._require_volume()
        try:
            if server is None:
                volume.cut_power(lambda: None)
                return
            server.pause(on=True)
            try:
                volume.cut_power(server.kill)
            except NoVolume:
                server.pause(on=False)
                raise
        except NoVolume as error:
            raise Unsupported(str(error)) from error

    def forget(self) -> None:
        """Drop the disk's pages from the system's cache. Nothing may use the disk now.

        Raises:
            Unsupported: there is no disk.
        """
        try:
            self._require_volume().forget()
        except NoVolume as error:
            raise Unsupported(str(error)) from error

    def fill(self, *, full: bool) -> None:
        """Fill the disk, or undo that.

        Raises:
            Unsupported: there is no disk.
        """
        volume = self._require_volume()
        with suppress(OSError):
            if full:
                volume.fill()
            else:
                volume.release()

    def _require_volume(self) -> Volume:
        if self._volume is None:
            raise Unsupported(f"its files are not on a disk of their own: {self._why}")
        return self._volume
