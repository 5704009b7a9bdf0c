"""Python environments for single stores, made by uv on demand.

Some stores need versions of libraries that other stores cannot use (AnnLite's search fails with
numpy 2, for example). Such a store declares an `Environment`, and the process that measures it runs
inside that environment, so that a timed call is never a call between processes.

An environment is made once from the lock file `locks/<name>.lock` of a package that brings one (see
`plugins.packages`), in a folder of `paths.environments_dir()` named after the lock's hash. Neither
Vectrial nor that package is installed into it: `command` makes exactly these copies importable
there, and nothing that lies beside them.

If `locks/<name>.needs` names hardware, one kind a line (see `vectrial.util.hardware`), nothing is
installed on a machine that lacks it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.capabilities import Environment
from vectrial.model.errors import NotInstalled, UserError, VectrialError
from vectrial.model.progress import LineProgress
from vectrial.util import children, hardware, paths, plugins
from vectrial.util.locks import build_once
from vectrial.util.process import tail, wait_for

_LOG_TAIL_LINES = 20
#: Characters of the log's last line that progress shows.
_LINE = 80
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class PythonCommand:
    """Arguments and environment variables for `subprocess`; `env` is the whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def names() -> tuple[str, ...]:
    """The names of all environments that have a lock file."""
    locks = (lock for package in _packages() for lock in (package / "locks").glob("*.lock"))
    return tuple(sorted({lock.stem for lock in locks}))


def environment_folder(environment: Environment) -> Path:
    """The folder of `environment`, whether it exists or not.

    Its name ends in a hash of everything that determines the folder's contents, so a changed lock
    gives a new environment, and several versions of Vectrial share a home.
    """
    pins = hashlib.sha256()
    for part in _pins(environment):
        pins.update(part.read_bytes() if part.exists() else b"")
    pins.update(f"{environment.python} {sys.platform} {platform.machine()}".encode())
    return paths.environments_dir() / f"{environment.name}-{pins.hexdigest()[:12]}"


def missing_hardware(environment: Environment) -> str:
    """The hardware that the libraries of `environment` need and this machine lacks, and how that
    was determined; empty if nothing is missing.

    Raises:
        UserError: no environment of this name exists.
    """
    needs = _pins(environment)[0].with_suffix(".needs")
    return (
        hardware.missing_hardware(needs.read_text(encoding="utf-8").split())
        if needs.exists()
        else ""
    )


def ensure(environment: Environment, progress: LineProgress = lambda line: None) -> Path:
    """The Python of `environment`, which is made first if it does not exist yet.

    Making it takes minutes if a library has to be compiled; finding it takes milliseconds. Two
    concurrent callers wait for one build.

    Raises:
        NotInstalled: the environment cannot be made here: this machine lacks hardware, or the
            message ends with the log's tail.
        UserError: no environment of this name exists.
    """
    folder, what = environment_folder(environment), f"environment '{environment.name}'"
    if why := missing_hardware(environment):
        raise NotInstalled(f"{what} {why}")

    def build(aside: Path, lock: int) -> None:
        log = folder.with_name(f"{folder.name}.log")
        log.unlink(missing_ok=True)
        started = time.monotonic()
        progress(
            f"{what}: installing {_pins(environment)[0].name}"
            " (once; minutes where a library has to be compiled)"
        )
        for argv in _steps(environment, aside):
            run_step(argv, lock, log, what, progress)
        progress(f"{what}: ready after {time.monotonic() - started:.0f} s")

    return build_once(folder, "bin/python", what, build, progress)


def command(
    environment: Environment,
    module: str,
    arguments: Sequence[str] = (),
    progress: LineProgress = lambda line: None,
    classes: Iterable[type] = (),
) -> PythonCommand:
    """The command `python -m module arguments…` inside `environment`, with `vectrial` and the
    packages that define `classes` importable.

    `module` may be one of vectrial's own or one in the environment (pytest). The current folder is
    not on the module path. Makes the environment if it does not exist yet.

    Raises:
        NotInstalled, UserError: see `ensure`.
    """
    python = ensure(environment, progress)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "VIRTUAL_ENV")}
    env["PYTHONPATH"] = str(
        _isolated_import_folder(map(plugins.folder_of, classes), python.parents[1])
    )
    env["PYTHONSAFEPATH"] = "1"
    return PythonCommand((str(python), "-P", "-m", module, *arguments), env)


def _pins(environment: Environment) -> tuple[Path, Path]:
    """Paths of the lock file and of the build constraints, which need not exist."""
    for package in _packages():
        lock = package / "locks" / f"{environment.name}.lock"
        if lock.is_file():
            return lock, lock.with_suffix(".build")
    raise UserError(
        f"there is no environment '{environment.name}'",
        remedy=f"there is: {', '.join(names())}",
    )


def _packages() -> tuple[Path, ...]:
    """The folders of the packages that may bring locks, Vectrial's own first."""
    return (_PACKAGE, *plugins.packages().values())


def _isolated_import_folder(packages: Iterable[Path], folder: Path) -> Path:
    """A folder from which only this copy of Vectrial and these packages can be imported.

    The folder that really holds a package may be a site-packages full of other libraries, which
    must not take precedence over, or join, the environment's own.
    """
    every = sorted({_PACKAGE, *packages})
    copies = hashlib.sha256("\n".join(map(str, every)).encode()).hexdigest()[:12]
    alone = folder / "vectrial" / copies
    alone.mkdir(parents=True, exist_ok=True)
    for package in every:
        link = alone / package.name
        try:
            link.symlink_to(package)
        except FileExistsError:
            if not link.exists():
                raise
    return alone


def _steps(environment: Environment, folder: Path) -> list[tuple[str, ...]]:
    """The commands that make `folder`."""
    uv = children.uv()
    if uv is None:
        raise NotInstalled(f"environment '{environment.name}' is made by uv: pip install uv")
    lock, build = _pins(environment)
    constrain = ("--build-constraints", str(build)) if build.exists() else ()
    # Relocatable, because it is renamed; compiled, so that the first trial is not slower.
    install = (uv, "pip", "install", "--require-hashes", "--compile-bytecode", *constrain)
    return [
        (uv, "venv", "--relocatable", "--python", environment.python, str(folder)),
        (*install, "--python", str(folder / "bin" / "python"), "-r", str(lock)),
    ]


def run_step(argv: Sequence[str], lock: int, log: Path, what: str, report: LineProgress) -> None:
    """Run one step of making `what`, appending its output to `log` and reporting its last line now
    and then. lock: see `build_once`.

    Raises:
        NotInstalled: it failed; the message ends with the log's tail.
    """
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    with log.open("a") as output:
        output.write(f"$ {' '.join(argv)}\n")
        output.flush()
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
        )
    if wait_for(process, lambda passed: report(f"{what}: {passed:.0f} s, {tail(log, 1)[:_LINE]}")):
        raise NotInstalled(
            f"{what} could not be made: "
            f"'{' '.join(argv[:3])} …' ended with {process.returncode}. Libraries that come as "
            f"source need a C++ compiler and Python's headers. The log is {log}; it ends:\n"
            f"{tail(log, _LOG_TAIL_LINES)}"
        )


def main(arguments: Sequence[str]) -> int:
    """`python -m vectrial.util.environments [NAME…]`: make these environments, or all for which
    this machine has the hardware. The exit code: 0 if every named environment exists."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        for name in arguments or names():
            if not arguments and (why := missing_hardware(Environment(name))):
                say(f"environment '{name}': skipped: {why}")
                continue
            print(ensure(Environment(name), say))
    except VectrialError as error:
        say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
