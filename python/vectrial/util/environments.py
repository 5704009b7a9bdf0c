"""Python environments of a store's own, made on demand.

Some stores need versions of libraries that no other store can live with (AnnLite's search fails
with numpy 2, for one). Such a store declares an `Environment`, and the process that measures it
runs inside that environment, so that no call between processes lies inside a timed one.

An environment is made once from the lock file `locks/<name>.lock` that ships inside this
package, in a folder of `home.environments_dir()` named after the lock's hash: it is built aside,
and renamed into place when complete, so what stands there is never half made. Vectrial itself is
not installed into it: `command` makes this very copy of the package importable there, and nothing
that happens to lie beside it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.errors import NotInstalled, UserError, VectrialError
from vectrial.model.progress import LineProgress
from vectrial.model.store import Environment
from vectrial.util import paths
from vectrial.util.locks import only_one

#: Seconds between two looks at a build that is under way.
_POLL_S = 0.5
#: Seconds between two lines of progress.
_REPORT_S = 5.0
_LOG_TAIL_LINES = 20
#: Characters of the log's last line that progress shows.
_LINE = 80
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Command:
    """What to hand to `subprocess`: the arguments, and the whole environment of variables."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def names() -> tuple[str, ...]:
    """Names of all environments that have a lock file."""
    return tuple(sorted(path.stem for path in _locks().glob("*.lock")))


def path(environment: Environment) -> Path:
    """The folder where `environment` stands once it was made.

    Its name ends in a hash of everything that the folder's contents follow from, so a changed
    lock gives a new environment, and several versions of Vectrial share a home.
    """
    pins = hashlib.sha256()
    for part in (_lock(environment), _build_constraints(environment)):
        pins.update(part.read_bytes() if part.exists() else b"")
    pins.update(f"{environment.python} {sys.platform} {platform.machine()}".encode())
    return paths.environments_dir() / f"{environment.name}-{pins.hexdigest()[:12]}"


def ensure(environment: Environment, progress: LineProgress | None = None) -> Path:
    """The Python of `environment`, which is made first where it does not stand yet.

    Making it takes minutes where a library has to be compiled; finding it takes milliseconds.
    Two processes that ask at once wait for one build.

    Raises:
        NotInstalled: the environment cannot be made here; the message ends with the log's tail.
        UserError: no environment of this name exists.
    """
    folder = path(environment)
    python = folder / "bin" / "python"
    if python.exists():
        return python
    report = progress or (lambda message: None)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with only_one(
        folder.with_name(f"{folder.name}.making"), f"environment '{environment.name}'", report
    ) as lock:
        if not python.exists():  # else another process made it while this one waited
            _make(environment, folder, lock, report)
    return python


def command(
    environment: Environment,
    module: str,
    arguments: Sequence[str] = (),
    progress: LineProgress | None = None,
) -> Command:
    """How to run `python -m module arguments…` inside `environment`, with `vectrial` importable.

    `module` may be one of vectrial's own or one that the environment has (pytest). The current
    folder is not on the module path. Makes the environment where it does not stand yet.

    Raises:
        NotInstalled, UserError: as `ensure`.
    """
    python = ensure(environment, progress)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "VIRTUAL_ENV")}
    env["PYTHONPATH"] = str(_only_vectrial(python.parents[1]))
    env["PYTHONSAFEPATH"] = "1"
    return Command((str(python), "-P", "-m", module, *arguments), env)


# -- where things are ------------------------------------------------------------------------


def _locks() -> Path:
    # Inside the package, so that a wheel carries them as a source tree does.
    return _PACKAGE / "locks"


def _lock(environment: Environment) -> Path:
    found = _locks() / f"{environment.name}.lock"
    if not found.is_file():
        raise UserError(
            f"there is no environment '{environment.name}'",
            remedy=f"there is: {', '.join(names())}",
        )
    return found


def _build_constraints(environment: Environment) -> Path:
    return _locks() / f"{environment.name}.build"


def _only_vectrial(folder: Path) -> Path:
    """A folder in which this copy of the package is the only thing to import.

    The folder that really holds the package may be a site-packages full of other libraries,
    which must not come before, or beside, those that the environment was made for.
    """
    copy = hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:12]
    alone = folder / "vectrial" / copy
    link = alone / _PACKAGE.name
    if not link.exists():
        alone.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(_PACKAGE, target_is_directory=True)
        except FileExistsError:
            if not link.exists():
                raise
    return alone


# -- making ----------------------------------------------------------------------------------


def _make(environment: Environment, folder: Path, lock: int, report: LineProgress) -> None:
    """Build the environment aside and rename it to `folder`. The caller holds its lock."""
    aside = folder.with_name(f"{folder.name}.partial")
    log = folder.with_name(f"{folder.name}.log")
    shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed while it built
    log.unlink(missing_ok=True)
    started = time.monotonic()
    report(
        f"environment '{environment.name}': installing {_lock(environment).name}"
        " (once; minutes where a library has to be compiled)"
    )
    try:
        for argv, env in _steps(environment, aside):
            _run(argv, env, lock, log, environment, started, report)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    report(f"environment '{environment.name}': ready after {time.monotonic() - started:.0f} s")


def _steps(
    environment: Environment, folder: Path
) -> list[tuple[tuple[str, ...], Mapping[str, str]]]:
    """The commands that make `folder`, each with the variables it runs under."""
    lock, build = str(_lock(environment)), _build_constraints(environment)
    python = str(folder / "bin" / "python")
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    if uv := _uv():
        constrain = ("--build-constraints", str(build)) if build.exists() else ()
        # Relocatable, because it is renamed; compiled, so that the first trial is not slower.
        install = ("pip", "install", "--require-hashes", "--compile-bytecode", *constrain)
        return [
            ((uv, "venv", "--relocatable", "--python", environment.python, str(folder)), env),
            ((uv, *install, "--python", python, "-r", lock), env),
        ]
    if build.exists():
        env["PIP_CONSTRAINT"] = str(build)  # the one way that reaches pip's isolated builds
    # The lock is complete; left to itself, pip would miss the extras that a lock does not name.
    install = (
        "-I",
        "-m",
        "pip",
        "install",
        "--require-hashes",
        "--no-deps",
        "--progress-bar",
        "off",
    )
    return [
        ((_interpreter(environment), "-I", "-m", "venv", str(folder)), env),
        ((python, *install, "-r", lock), env),
    ]


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _interpreter(environment: Environment) -> str:
    if platform.python_version().startswith(f"{environment.python}."):
        return sys.executable
    if found := shutil.which(f"python{environment.python}"):
        return found
    raise NotInstalled(
        f"environment '{environment.name}' needs Python {environment.python}, which is not here: "
        "install it, or uv, which fetches it"
    )


def _run(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    lock: int,
    log: Path,
    environment: Environment,
    started: float,
    report: LineProgress,
) -> None:
    """Run one step, its output appended to `log` and its last line reported now and then."""
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
    try:
        reported = time.monotonic()
        while process.poll() is None:
            time.sleep(_POLL_S)
            if (now := time.monotonic()) - reported >= _REPORT_S:
                reported = now
                line = _tail(log, 1)[:_LINE]
                report(f"environment '{environment.name}': {now - started:.0f} s, {line}")
    finally:
        if process.poll() is None:  # Ctrl-C, or a progress callback that raised
            process.terminate()
            process.wait()
    if process.returncode != 0:
        raise NotInstalled(
            f"environment '{environment.name}' could not be made: "
            f"'{' '.join(argv[:3])} …' ended with {process.returncode}. Libraries that come as "
            f"source need a C++ compiler and Python's headers. The log is {log}; it ends:\n"
            f"{_tail(log, _LOG_TAIL_LINES)}"
        )


def _tail(log: Path, lines: int) -> str:
    return "\n".join(log.read_text(errors="replace").rstrip().splitlines()[-lines:])


def main(arguments: Sequence[str]) -> int:
    """`python -m vectrial.util.environments [NAME…]`: make these environments, or all there are."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        for name in arguments or names():
            print(ensure(Environment(name), say))
    except VectrialError as error:
        say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
