"""The number of commits to the measuring code since a result was measured.

Git counts the commits between the revision that a run recorded and that of the checkout, if they
touch code that measures. Code that only reads runs (analysis, reports, comparison, pages, the
commands) does not count, since pages are generated again from the same bundle.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from vectrial_reproduce.reports.results.declarations import CommittedResult

#: The checkout of this package.
_HERE = Path(__file__).parent
_PACKAGE = "python/vectrial"
_OWN = "packages/vectrial-reproduce/src/vectrial_reproduce"
_DATASETS = "packages/vectrial-datasets/src/vectrial_datasets"
#: Within the package: what only reads runs. Those that left it stand in earlier commits.
_READERS = (
    "analysis", "api.py", "cli", "compare", "document", "report", "testing",
    "reports", "serve", "site",
)  # fmt: skip
_MEASURES = (
    "Cargo.lock",
    "engine",
    _PACKAGE,
    *(f":(top,exclude){_PACKAGE}/{name}" for name in _READERS),
    *(f"{_OWN}/{name}" for name in ("stores", "experiments", "segments", "detection.py", "locks")),
    *(f"{_DATASETS}/{name}" for name in ("catalog.py", "sources")),
    *(f":(top,exclude,glob){one}/experiments/**/report.py" for one in (_PACKAGE, _OWN)),
)
#: The reports, and where they were.
_REPORTS = (f"{_OWN}/reports", f"{_PACKAGE}/reports")


def commits_since(result: CommittedResult, revisions: Iterable[str | None]) -> int | None:
    """Commits since the oldest of some revisions that touch the code measuring a result; None if a
    revision is unknown here. 0: measuring again would do the same."""
    found = [_commits_since(one, result) for one in set(revisions)]
    known = [len(commits) for commits in found if commits is not None]
    return max(known, default=None) if len(known) == len(found) else None


def revision() -> str | None:
    """The checkout's revision; None outside a checkout."""
    return _git("rev-parse", "HEAD")


def changes() -> list[str]:
    """Tracked files with uncommitted changes, among those that measure."""
    output = _git("diff", "HEAD", "--name-only", "--", *map(_path_from_root, _MEASURES))
    return (output or "").splitlines()


def _commits_since(revision: str | None, result: CommittedResult) -> frozenset[str] | None:
    """Commits since a revision that touch the code measuring a result; None if it is unknown."""
    # Asked for apart: what git leaves out of a listing, no other path of it brings back.
    parts = [_commits(revision, paths) for paths in (_MEASURES, _own_paths(result)) if paths]
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _own_paths(result: CommittedResult) -> tuple[str, ...]:
    """Paths of the code that measures only this result."""
    if not result.is_reproduction:
        return tuple(_suites(result))
    folder = result.words[1].replace("-", "_")
    return tuple(f"{place}/{name}" for place in _REPORTS for name in ("planning.py", folder))


def _suites(result: CommittedResult) -> list[str]:
    """The suites that the result's command names, if they are in the checkout."""
    root = Path(_git("rev-parse", "--show-toplevel") or "/").resolve()
    named = [Path(word).resolve() for word in result.words if word.endswith(".toml")]
    return [path.relative_to(root).as_posix() for path in named if path.is_relative_to(root)]


@cache
def _commits(since: str | None, paths: tuple[str, ...]) -> frozenset[str] | None:
    if since is None:
        return None
    output = _git("rev-list", f"{since}..HEAD", "--", *map(_path_from_root, paths))
    return None if output is None else frozenset(output.split())


def _path_from_root(path: str) -> str:
    """A path in the form that git takes, from the checkout's root."""
    return path if path.startswith(":") else f":(top){path}"


def _git(*words: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    done = subprocess.run(
        [program, "-C", str(_HERE), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
