"""The disk of a job's data, where the placement asks for one of its own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vectrial.model.errors import Unsupported
from vectrial.model.placement import Placement, size_bytes
from vectrial.servers.base import Server
from vectrial.util.volume import NoVolume, Volume


class DataDisk:
    """A file system of the data of one job, on which power cuts and full disks are made; or why
    there is none.

    Args:
        placement: says whether it is asked for, and its size. image: the file that holds it.
        folder: where it is mounted.
    """

    def __init__(self, placement: Placement, image: Path, folder: Path) -> None:
        self._volume: Volume | None = None
        self._why = "set data_disk in [placement]"
        if placement.data_disk is not None:
            self._volume = Volume(image, folder, size_bytes(placement.data_disk))

    def mount(self) -> None:
        """Make it, if it is asked for and can be made here."""
        if self._volume is not None:
            try:
                self._volume.__enter__()
            except NoVolume as error:
                self._volume, self._why = None, str(error)

    def unmount(self) -> None:
        """Remove it with all that is on it. Calling it twice is harmless."""
        volume, self._volume = self._volume, None
        if volume is not None:
            volume.__exit__(None, None, None)

    def sync(self) -> None:
        """Have on the disk what is in the system's cache, as that of a server which has run for
        long."""
        if self._volume is not None:
            self._volume.sync()

    def cut_power(self, server: Server | None) -> None:
        """Leave on it what a power cut leaves. A server is ended by that, and not started again;
        other processes that write to it stand still already.

        Raises:
            Unsupported: no power cut can be made.
        """
        volume = self._have()
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
        """Have nothing of it in the system's cache. Nobody uses it now.

        Raises:
            Unsupported: there is none.
        """
        try:
            self._have().forget()
        except NoVolume as error:
            raise Unsupported(str(error)) from error

    def fill(self, *, full: bool) -> None:
        """Have it full, or as it was before.

        Raises:
            Unsupported: there is none.
        """
        volume = self._have()
        with suppress(OSError):
            if full:
                volume.fill()
            else:
                volume.release()

    def _have(self) -> Volume:
        if self._volume is None:
            raise Unsupported(f"its files are not on a disk of their own: {self._why}")
        return self._volume
