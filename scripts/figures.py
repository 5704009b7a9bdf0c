"""Figures in the prose of docs, held against the results that they are from.

    python scripts/figures.py    # prints those that are not found; exit code 1 if there are any

A section that states a measured figure links to the folder in docs/results that has its bundle, or
to docs/benches.md. Each figure must then stand on a page that is made of the bundle, to its last
digit. In docs/results every number with a unit is taken for one, elsewhere those in units of rates,
times of requests and ratios. docs/figures.toml lists by page what is no result: settings, limits,
and sizes of machines.
"""

from __future__ import annotations

import bisect
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vectrial.report import pages as pages_of_runs
from vectrial_reproduce.reports import committed

ROOT = Path(__file__).resolve().parents[1]
#: The page whose every number with a unit is a result.
RESULTS = "docs/results/README.md"
#: Pages that commands generate, and that tests regenerate.
GENERATED = frozenset({"docs/claims.md", "docs/benches.md", "docs/matrix.md", "docs/lies.md"})
_UNITS = {
    "QPS": 1, "/s": 1, "ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1, "seconds": 1,
    "min": 60, "minutes": 60, "h": 3600, "hours": 3600, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9,
    "TB": 1e12, "MiB": 2**20, "GiB": 2**30, "%": 0.01, "times": 1, "×": 1, "": 1,
}  # fmt: skip
#: Quantity of each unit. A column may name its unit once: a number without one may be of anything.
_QUANTITIES = {
    **dict.fromkeys(("ns", "µs", "us", "ms", "s", "seconds"), "time"),
    **dict.fromkeys(("min", "minutes", "h", "hours"), "time"),
    **dict.fromkeys(("B", "kB", "MB", "GB", "TB", "MiB", "GiB"), "bytes"),
    **dict.fromkeys(("QPS", "/s"), "rate"), "%": "share", "times": "ratio", "×": "ratio", "": "",
}  # fmt: skip
#: Units that settings seldom have.
_MEASURED = frozenset({"QPS", "/s", "µs", "ms", "times", "×"})
_UNIT = "|".join(sorted((unit for unit in _UNITS if unit not in ("", "×")), key=len, reverse=True))
_NUMBER = re.compile(
    r"(?P<ratio>×)?(?<![\w.,])(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"(?P<million> million)?(?:\s?(?P<unit>{_UNIT})(?!\w))?"
)
_CODE = re.compile(r"```.*?```|^    [^\n]*$|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)")
#: A row of a table of docs/benches.md has its unit in a column of its own.
_BENCH_ROW = re.compile(r"^\|[^|]*\| ([^|]*) \| ([^|]*) \| (us|s|ns) \|", re.MULTILINE)


class Figure(NamedTuple):
    """A number of a text in base units, what its last digit is worth, and where it stands."""

    text: str
    value: float
    digit: float
    unit: str
    at: int

    @property
    def quantity(self) -> str:
        """The quantity that the figure measures."""
        return _QUANTITIES[self.unit]


def figures(text: str) -> Iterator[Figure]:
    """Every number of a text, with its unit if it has one."""
    for found in _NUMBER.finditer(text):
        unit = "×" if found["ratio"] else found["unit"] or ""
        number = found["number"].replace(",", "")
        scale = _UNITS[unit] * (1e6 if found["million"] else 1)
        digit = scale * 10 ** -len(number.partition(".")[2])
        yield Figure(found[0], float(number) * scale, digit, unit, found.start())


def missing(name: str, text: str) -> list[str]:
    """Figures of a page, named from the root, that no result has which their section links to; with
    the words around."""
    settings, found = _settings().get(name, frozenset()), []
    for section in re.split(r"(?m)^(?=## )", text):
        known = {one for source in _sources(ROOT / name, section) for one in _values(source)}
        prose = _CODE.sub("", section)
        for figure in figures(prose):
            units = _UNITS if name == RESULTS else _MEASURED
            if not figure.unit or figure.unit not in units or figure.text in settings:
                continue
            # Whole numbers stand everywhere: as ratios those count that are said to be one.
            bare = figure.quantity != "ratio" or figure.digit < 1
            of = {figure.quantity, ""} if bare else {"ratio"}
            values = _sorted(frozenset(known), frozenset(of))
            # The last digit may have been cut off or rounded.
            place = bisect.bisect_left(values, figure.value - 1.01 * figure.digit)
            if place == len(values) or values[place] > figure.value + 1.01 * figure.digit:
                around = " ".join(prose[max(0, figure.at - 60) : figure.at + 30].split())
                found.append(f"{name}: {figure.text}: … {around} …")
    return found


def _sources(page: Path, section: str) -> set[Path]:
    """The folders of results, and the page of benches, that a section links to."""
    results, benches, found = ROOT / "docs/results", ROOT / "docs/benches.md", set()
    for link in _LINK.findall(section):
        target = (page.parent / link).resolve()
        if target == benches:
            found.add(benches)
        elif target.is_relative_to(results) and target != results:
            folder = results / target.relative_to(results).parts[0]
            found |= {folder} if folder.is_dir() else set()
    return found


@cache
def _sorted(known: frozenset[tuple[str, float]], of: frozenset[str]) -> list[float]:
    return sorted(value for quantity, value in known if quantity in of)


@cache
def _values(source: Path) -> frozenset[tuple[str, float]]:
    """Every number of the pages of a result, with what it is of, in base units."""
    if source.is_file():
        text = source.read_text("utf-8")
        rows = (f"{a} {unit} {b} {unit}" for a, b, unit in _BENCH_ROW.findall(text))
        return frozenset((one.quantity, one.value) for one in figures("\n".join([text, *rows])))
    texts = [
        *map(pages_of_runs.text_of, pages_of_runs.bundles(source)),
        *map(committed.text_of, committed.reproductions(source)),
    ]
    return frozenset((one.quantity, one.value) for text in texts for one in figures(text))


@cache
def _settings() -> dict[str, frozenset[str]]:
    text = (ROOT / "docs/figures.toml").read_text("utf-8")
    return {page: frozenset(texts) for page, texts in tomllib.loads(text).items()}


def pages() -> list[str]:
    """The pages that people write, named from the root."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / RESULTS]
    names = (page.relative_to(ROOT).as_posix() for page in found)
    return [name for name in names if name not in GENERATED]


def main() -> int:
    """Print what is not found."""
    lacking = [line for name in pages() for line in missing(name, (ROOT / name).read_text("utf-8"))]
    print("\n".join(lacking) or "every figure is in the results that its section names")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
