"""Which tests a change runs: what `tests/changes.toml` says of the paths that git names.

VECTRIAL_SINCE names the commit that the change begins after; else it is where HEAD left
origin/main. VECTRIAL_QUARTER adds a quarter of what the change did not touch: its number, or "auto"
for the one whose turn it is by `.ci/landed`.

    python tests/support/changes.py              says what is selected, and why
    python tests/support/changes.py --servers    names of the servers that the tests need
    python tests/support/changes.py --fetch      fetches those that need not be built
    python tests/support/changes.py --environments   of stores that need one of their own
    python tests/support/changes.py --engine     "cargo test" if it runs, else nothing
    python tests/support/changes.py --landed     begins the next landing: writes `.ci/landed`
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "changes.toml"
LANDED = ROOT / ".ci" / "landed"
LOCK = "requirements/dev.lock"
#: Words that are no stores.
OTHERS = frozenset({"committed", "docker", "engine", "minio", "ray"})
#: Quarters are numbered from 0.
QUARTERS = 4


@dataclass(frozen=True)
class Table:
    """The lines of `tests/changes.toml`; see there. quarters: by number."""

    paths: Mapping[str, frozenset[str]]
    always: frozenset[str]
    built: frozenset[str]
    servers: Mapping[str, str]
    quarters: Sequence[frozenset[str]]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word, but for "stores", which is many."""
        return self.always.union(*self.quarters)

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(line, re.compile(_as_regex(line))) for line in self.paths]

    def line_of(self, path: str) -> str | None:
        """The first line that `environment_folder` matches, if any."""
        return next((line for line, one in self._patterns if one.fullmatch(path)), None)

    def words_of(self, path: str) -> frozenset[str]:
        """What a change of `environment_folder` runs."""
        line = self.line_of(path)
        words = frozenset() if line is None else self.paths[line]
        return words - {"stores"} | (self.words - OTHERS if "stores" in words else frozenset())


@dataclass(frozen=True)
class Changes:
    """Paths that changed, and "pin/NAME" for each requirement whose version did.

    since: the commit before, as a person reads it. paths: None where nobody can tell.
    """

    since: str
    paths: frozenset[str] | None


@dataclass(frozen=True)
class Selection:
    """What runs after a change, and in which quarter (None: in none)."""

    table: Table
    changes: Changes
    quarter: int | None = None

    @cached_property
    def words(self) -> frozenset[str]:
        """The words whose tests run."""
        if self.changes.paths is None:
            return self.table.words
        turn = frozenset() if self.quarter is None else self.table.quarters[self.quarter]
        touched = map(self.table.words_of, self.changes.paths)
        return self.table.always.union(turn, *touched)

    def runs(self, file: str, words: Iterable[str]) -> bool:
        """True if a test in `file` (its path from the root) runs that is bound to these words."""
        words = frozenset(words)
        changed = self.changes.paths is not None and file in self.changes.paths
        return not words or bool(words & self.words) or changed

    def servers(self, words: frozenset[str] | None = None) -> list[str]:
        """Names of servers of these words, of those selected unless given."""
        wanted = self.words if words is None else words
        return sorted({self.table.servers.get(word, word) for word in wanted})

    def text(self) -> str:
        """What is selected, and why, in a line."""
        if self.changes.paths is None:
            return f"{self.changes.since}: everything runs"
        count = len(self.changes.paths)
        turn = "none" if self.quarter is None else f"{self.quarter} of 0 to {QUARTERS - 1}"
        return (
            f"{count} path{'s' * (count != 1)} changed since {self.changes.since}; quarter: {turn};"
            f" bound tests of: {', '.join(sorted(self.words))}"
        )


def read_table(path: Path = TABLE) -> Table:
    """The table in `environment_folder`."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return Table(
        {line: frozenset(words) for line, words in raw["paths"].items()},
        frozenset(raw["always"]),
        frozenset(raw["built"]),
        raw["servers"],
        [frozenset(raw["quarters"][str(number)]) for number in range(QUARTERS)],
    )


def selection(root: Path = ROOT) -> Selection:
    """What the tree at `root` runs, by git and the environment."""
    table = read_table(root / "tests" / "changes.toml")
    named = os.environ.get("VECTRIAL_QUARTER") or None
    quarter = landed(root)[1] if named == "auto" else None if named is None else int(named)
    return Selection(table, changes(root, os.environ.get("VECTRIAL_SINCE")), quarter)


def landed(root: Path = ROOT) -> tuple[str, int]:
    """The commit that landed before, and the quarter whose turn it is."""
    commit, quarter = (root / ".ci" / "landed").read_text(encoding="utf-8").split()
    return commit, int(quarter) % QUARTERS


def changes(root: Path, since: str | None = None) -> Changes:
    """What differs between the tree at `root` and `since`, else where HEAD left origin/main."""
    base = _git(root, "rev-parse", "--verify", "--quiet", f"{since}^{{commit}}") if since else None
    if since and base is None:
        return Changes(f"git knows no commit {since} here", None)
    base = base or _git(root, "merge-base", "HEAD", "origin/main")
    if base is None:
        return Changes("there is no origin/main to compare with", None)
    tracked = _git(root, "diff", "--name-only", "--no-renames", base) or ""
    new = _git(root, "ls-files", "--others", "--exclude-standard") or ""
    before = _pins(_git(root, "show", f"{base}:{LOCK}") or "")
    lock = root / LOCK
    now = _pins(lock.read_text(encoding="utf-8") if lock.exists() else "")
    pins = {f"pin/{name}" for name in before | now if before.get(name) != now.get(name)}
    return Changes(base[:8], frozenset({*tracked.splitlines(), *new.splitlines()} | pins))


def _pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.MULTILINE))


def _git(root: Path, *arguments: str) -> str | None:
    """What git says; None if it fails, or is not here."""
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _as_regex(line: str) -> str:
    parts = re.split(r"(\*\*|\*)", line)
    return "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)


def is_here(word: str, table: Table) -> bool:
    """True if what `word` needs built is here already, or must not be missing."""
    from vectrial.servers.base import Recipe
    from vectrial.stores import registry
    from vectrial.stores.__main__ import recipes
    from vectrial.testing.server_programs import must_run
    from vectrial.util import environments

    if word in registry.names():
        environment = registry.load(word).environment
        if environment is not None and not environments.environment_folder(environment).exists():
            return False
    recipe: Recipe | None = recipes().get(table.servers.get(word, word))
    return recipe is None or recipe.availability().works is True or must_run(recipe)


def _environments(words: Iterable[str]) -> list[str]:
    """Names of the environments of these stores, but for those that this machine cannot run."""
    from vectrial.stores import registry
    from vectrial.util import environments

    found = {registry.load(word).environment for word in words if word in registry.names()}
    return sorted(
        one.name for one in found if one is not None and not environments.missing_hardware(one)
    )


def _obtainable(names: Iterable[str]) -> list[str]:
    """Those of these servers that are here, or can be had."""
    from vectrial.stores.__main__ import recipes

    known = recipes()
    return [one for one in names if one in known and known[one].availability().works is not False]


def _fetch(chosen: Selection) -> None:
    from vectrial.servers.base import NoProgram
    from vectrial.servers.provide import prepare
    from vectrial.stores.__main__ import recipes

    for name in _obtainable(chosen.servers(chosen.words - chosen.table.built)):
        try:
            prepare(recipes()[name], lambda line: print(line, file=sys.stderr))
        except NoProgram as error:
            print(f"{name}: cannot be had: {error}", file=sys.stderr)


def _begin(root: Path) -> None:
    """Write `.ci/landed`: where HEAD left origin/main, and the quarter after the last."""
    base = _git(root, "merge-base", "HEAD", "origin/main") or _git(root, "rev-parse", "HEAD")
    assert base is not None
    next_quarter = (landed(root)[1] + 1) % QUARTERS
    LANDED.write_text(f"{base[:8]} {next_quarter}\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    chosen = selection()
    match list(arguments):
        case []:
            print(chosen.text())
        case ["--servers"]:
            print(*_obtainable(chosen.servers()))
        case ["--fetch"]:
            _fetch(chosen)
        case ["--environments"]:
            print(*_environments(chosen.words))
        case ["--engine"]:
            print("cargo test" if "engine" in chosen.words else "")
        case ["--landed"]:
            _begin(ROOT)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
