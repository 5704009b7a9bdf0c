"""Lines of code by part, held against budget.toml.

    python scripts/budget.py    # prints each part with its lines; exit code 1 if one has too many

A part that is not in the list has no lines to have. Blank lines and comments count: they are read,
too.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The parts: every folder of a package, and the others as a whole, each with the files that count.
_PACKAGES = ("python/vectrial", "packages/*/src/*")
_WHOLE = {"tests": "*.py", "packages/*/tests": "*.py", "bench": "*.py", "scripts": "*.py"}
_WHOLE |= {"engine": "*.rs"}


def lines() -> dict[str, int]:
    """The lines of each part, by its path from the root."""
    found = {}
    for package in packages():
        found[_name(package)] = sum(map(_lines, package.glob("*.py")))
        for folder in sorted(path for path in package.iterdir() if path.is_dir()):
            count = sum(map(_lines, folder.rglob("*.py")))
            found |= {_name(folder): count} if count else {}
    for pattern, files in _WHOLE.items():
        for folder in sorted(ROOT.glob(pattern)):
            found[_name(folder)] = sum(map(_lines, folder.rglob(files)))
    return found


def packages() -> list[Path]:
    """The folders of the packages, Vectrial's own first."""
    return [path for pattern in _PACKAGES for path in sorted(ROOT.glob(pattern)) if path.is_dir()]


def _name(folder: Path) -> str:
    return folder.relative_to(ROOT).as_posix()


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def faults(found: Mapping[str, int], budget: Mapping[str, int]) -> list[str]:
    """The parts that exceed the budget, a sentence each."""
    over = [
        f"{part} has {count:,} lines, {count - budget.get(part, 0):,} more than its budget: make"
        " something else shorter, or raise its number in budget.toml with a sentence why"
        for part, count in found.items()
        if count > budget.get(part, 0)
    ]
    return over + [f"{part} is in budget.toml, and not here" for part in budget.keys() - found]


def main() -> int:
    """Print the parts, and what does not keep to the budget."""
    budget = tomllib.loads((ROOT / "budget.toml").read_text("utf-8"))["lines"]
    found = lines()
    for part, count in found.items():
        print(f"{part:60} {count:7,} of {budget.get(part, 0):7,}")
    for package in packages():
        own = [n for part, n in found.items() if f"{part}/".startswith(f"{_name(package)}/")]
        print(f"{package.name + ', all of it':60} {sum(own):7,}")
    wrong = faults(found, budget)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
