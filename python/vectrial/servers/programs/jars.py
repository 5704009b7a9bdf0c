"""Programs that are sets of Java archives in a Maven registry, fetched into the cache, once.

A lock file names each archive with its checksum, `group:name:version sha256` a line: Maven fetches
these and resolves nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from vectrial.model.availability import Availability
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.servers.programs.base import made_once, run_logged
from vectrial.servers.programs.maven import NO_MVN
from vectrial.util import paths
from vectrial.util.checksum import sha256_of

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@dataclass(frozen=True)
class JarProgram:
    """A program made of Java archives.

    lock: its lock file. main: name in the lock file of the archive that contains the program.
    """

    name: str
    version: str
    lock: Path
    main: str

    @property
    def folder(self) -> Path:
        """The folder of the archives."""
        return paths.servers_dir() / f"{self.name}-{self.version}"

    @property
    def file(self) -> str:
        """File name of the archive that contains the program."""
        return f"lib/{self.main}-{self.version}.jar"


def jar_program(program: JarProgram, progress: LineProgress) -> Path:
    """The path of `program.file`, with the other archives beside it; missing ones are fetched
    first.

    Raises:
        NoProgram: an archive is not available here, or is not the pinned one.
    """
    what = f"{program.name} {program.version}"

    def make(into: Path, lock: int) -> None:
        mvn, started = shutil.which("mvn"), time.monotonic()
        if mvn is None:
            raise NoProgram(f"{what} is fetched from a Maven registry: {NO_MVN}")
        pinned = dict(line.split() for line in program.lock.read_text().splitlines())
        (into / "pom.xml").write_text(_pom(list(pinned)))
        log = paths.servers_dir() / f"{program.name}.log"
        goal = (f"{_PLUGIN}:copy-dependencies", f"-DoutputDirectory={into / 'lib'}")
        argv = (mvn, "-B", "-ntp", "-f", str(into / "pom.xml"), *goal)
        run_logged(argv, os.environ, log, lock, f"{what}: fetching", progress)
        for coordinates, checksum in pinned.items():
            _, name, version = coordinates.split(":")
            found = sha256_of(into / "lib" / f"{name}-{version}.jar")
            if found != checksum:
                raise NoProgram(f"{coordinates} is not what was pinned: its sha256 is {found}")
        log.unlink()
        progress(f"{what}: there after {time.monotonic() - started:.0f} s")

    return made_once(program.folder, program.file, what, make, progress)


def jar_program_at_hand(program: JarProgram) -> Availability:
    """The availability of `program`."""
    if (program.folder / program.file).exists():
        return Availability(True)
    what = f"{program.name} {program.version} is fetched from its Maven artifacts"
    if shutil.which("mvn") is None:
        return Availability(False, f"{what}: {NO_MVN}")
    return Availability(None, f"{what} on first use, in a minute or so")


def _pom(pinned: list[str]) -> str:
    """A project that depends on exactly these archives."""
    nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    dependencies = "\n".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "<exclusions>{}</exclusions></dependency>".format(
            *map(escape, coordinates.split(":")), nothing_else
        )
        for coordinates in pinned
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>vectrial</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )
