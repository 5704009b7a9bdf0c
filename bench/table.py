"""The figures of `make bench` as a page of the docs: `bench/table.py FIGURES.jsonl PAGE.md`."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vectrial.telemetry.environment import environment_facts

HEAD = """# What the benches say

Written by `make bench`: medians with their range, and ratios to what was measured right beside them
in the same run of a script. A figure against a baseline has its goal as a ratio, any other as a
value.

{machine}

| measured | median | range | unit | against | ratio | goal | |
| --- | ---: | ---: | --- | --- | ---: | ---: | --- |
"""


def row(figure: dict[str, Any]) -> str:
    """One line of the table."""
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


def main() -> int:
    """Write the page."""
    source, page = map(Path, sys.argv[1:3])
    lines = source.read_text(encoding="utf-8").splitlines()
    facts = environment_facts(Path(__file__).parent.parent)
    revision = (facts["git"]["revision"] or "unknown")[:12]
    machine = (
        f"Machine: {facts['cpu']['model']}, {os.cpu_count()} processors, "
        f"{facts['memory']['total_bytes'] / 2**30:.0f} GiB, {facts['os']['kernel']}; "
        f"revision {revision}; {datetime.now(UTC):%Y-%m-%d}."
    )
    head = HEAD.format(machine=machine)
    page.write_text(head + "\n".join(row(json.loads(line)) for line in lines) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
