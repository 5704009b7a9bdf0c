"""The runs that a site is made of: folders and bundles below one or more paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.results.bundle import SUFFIX
from vectrial.results.database import DATABASE
from vectrial.util.file_names import slug

#: What a run's folder holds that is no run.
_NOT_RUNS = ("work", "logs", "report")
#: The name of a bundle that says nothing of the run: its folder does.
_PLAIN = f"run{SUFFIX}"


@dataclass(frozen=True)
class Input:
    """A run on disk. id: its folder in the site. name: its path below the given path."""

    id: str
    path: Path
    name: str


def inputs_of(paths: Sequence[Path]) -> list[Input]:
    """Every run and bundle at or below the paths, each once, sorted by name.

    Raises:
        UserError: a path does not exist, or there is no run at all.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if not path.exists():
            raise UserError("there is no such file or folder", where=str(path))
        for run in _below(path):
            found.setdefault(run.resolve(), _name(run, path))
    if not found:
        raise UserError(
            "no run here",
            where=", ".join(map(str, paths)),
            remedy="give a folder of runs or of bundles; vectrial run makes ./runs",
        )
    taken: dict[str, int] = {}
    inputs = []
    for path, name in sorted(found.items(), key=lambda item: item[1]):
        short = slug(name)
        taken[short] = taken.get(short, 0) + 1
        number = f"-{taken[short]}" if taken[short] > 1 else ""
        inputs.append(Input(f"{short}{number}", path, name))
    return inputs


def _below(path: Path) -> Iterator[Path]:
    """Runs and bundles at a path and below it. Links to folders are not followed further down."""
    if path.is_file() or (path / DATABASE).is_file():
        yield path
        return
    for folder, inside, files in os.walk(path):
        here = Path(folder)
        if here != path and DATABASE in files:
            inside.clear()
            yield here
            continue
        inside[:] = sorted(
            name for name in inside if not name.startswith(".") and name not in _NOT_RUNS
        )
        yield from (here / name for name in sorted(files) if name.endswith(SUFFIX))


def _name(run: Path, below: Path) -> str:
    where = run if run.name != _PLAIN else run.parent
    name = where.relative_to(below).as_posix() if where.is_relative_to(below) else where.name
    name = name.removesuffix(SUFFIX)
    return where.resolve().name.removesuffix(SUFFIX) if name in (".", "") else name
