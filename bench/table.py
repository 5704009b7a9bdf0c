"""The figures of `make bench` as a page of the docs.

    python bench/table.py NEW.jsonl KEPT.jsonl PAGE.md

What a script said before is replaced by what it says now, in KEPT and on the page; scripts of which
there is nothing new stay as they are, with the machine and the revision that they were run on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

Figure = dict[str, Any]

HEAD = """# What the benches say

Written by `make bench`, or by `make bench BENCH=NAME` for one of them: medians with their range,
and ratios to what was measured right beside them in the same run of a script. A figure against a
baseline has its goal as a ratio, any other as a value. The same figures as JSON:
[benches.jsonl](benches.jsonl).
"""
COLUMNS = """| measured | median | range | unit | against | ratio | goal | |
| --- | ---: | ---: | --- | --- | ---: | ---: | --- |
"""


def merged(kept: Iterable[Figure], new: Iterable[Figure]) -> list[Figure]:
    """The new figures, and the kept ones of other scripts; by script, in the order of each."""
    new = list(new)
    replaced = {one["script"] for one in new}
    figures = [*(one for one in kept if one["script"] not in replaced), *new]
    return sorted(figures, key=lambda one: str(one["script"]))


def page_of(figures: Iterable[Figure]) -> str:
    """The page: a table for each script, and machine and revision."""
    parts = [HEAD]
    for script, own in groupby(figures, key=lambda one: str(one["script"])):
        parts.append(f"## bench/{script}.py\n")
        for where, rows in groupby(own, key=_where):
            lines = "".join(f"{_row(one)}\n" for one in rows)
            parts.append(f"{where}\n\n{COLUMNS}{lines}")
    return "\n".join(parts)


def _where(figure: Figure) -> str:
    """What it was measured on."""
    return f"{figure['machine']}; revision {figure['revision']}; {figure['date']}."


def _row(figure: Figure) -> str:
    met = {None: "", True: "met", False: "**not met**"}[figure["met"]]
    cells = (
        figure["name"],
        f"{figure['value']:.4g}",
        f"{figure['low']:.4g} – {figure['high']:.4g}",
        figure["unit"],
        figure["baseline"] or "",
        "" if figure["ratio"] is None else f"{figure['ratio']:.3f}",
        "" if figure["goal"] is None else f"≤ {figure['goal']:g}",
        met,
    )
    return "| " + " | ".join(cells) + " |"


def _read(path: Path) -> list[Figure]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> int:
    """Write what is kept, and the page."""
    new, kept, page = map(Path, sys.argv[1:4])
    figures = merged(_read(kept) if kept.exists() else [], _read(new))
    kept.write_text("".join(f"{json.dumps(one)}\n" for one in figures), "utf-8")
    page.write_text(page_of(figures), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
