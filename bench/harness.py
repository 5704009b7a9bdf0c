"""What every bench script shares: repeated figures, ratios within one run, and how they leave.

    def main() -> int:
        bench = harness.start(__doc__)
        ours, theirs = harness.interleave([time_ours, time_theirs], repeats=9)
        bench.add(harness.compare("truth", "s", ours, theirs, baseline="faiss flat", goal=1.0))
        return bench.finish()

A goal is met when the ratio (or the value, where there is no baseline) is at most the goal.
A bench states what it saw and never fails because of it: the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from vectrial.telemetry.environment import environment_facts


@dataclass(frozen=True)
class Figure:
    """One line of a bench.

    value, low, high: median and range over the repeats, in `unit`.
    baseline: what was measured beside it in the same run; ratio: value / baseline's value,
        as the median of the ratios of the single repeats. Both None without a baseline.
    goal: the most that the ratio (without a baseline: the value) should be.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    baseline: str | None = None
    ratio: float | None = None
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        return (self.value if self.ratio is None else self.ratio) <= self.goal


def interleave(
    measured: Sequence[Callable[[], float]], repeats: int, discard: int = 1
) -> list[list[float]]:
    """Call each in turn, `repeats` times over, after `discard` rounds that do not count.

    Interleaving spreads what else the machine does over all of them alike; every other round
    goes backwards, so that none is always the one that follows another.
    """
    out: list[list[float]] = [[] for _ in measured]
    for turn in range(discard + repeats):
        order = range(len(measured))
        for which in reversed(order) if turn % 2 else order:
            value = measured[which]()
            if turn >= discard:
                out[which].append(value)
    return out


def figure(name: str, unit: str, values: Sequence[float], goal: float | None = None) -> Figure:
    """A figure that stands alone."""
    return Figure(name, statistics.median(values), unit, min(values), max(values), goal=goal)


def compare(
    name: str,
    unit: str,
    values: Sequence[float],
    baseline_values: Sequence[float],
    *,
    baseline: str,
    goal: float | None = None,
) -> Figure:
    """A figure beside its baseline: repeat i of one was measured right next to i of the other."""
    ratios = [ours / theirs for ours, theirs in zip(values, baseline_values, strict=True)]
    ratio = statistics.median(ratios)
    low, high = min(values), max(values)
    return Figure(name, statistics.median(values), unit, low, high, baseline, ratio, goal)


@dataclass
class Bench:
    """The figures of one script, on their way to the terminal and to a file."""

    jsonl: Path | None
    figures: list[Figure] = field(default_factory=list)
    script: str = Path(sys.argv[0]).stem

    def add(self, *figures: Figure) -> None:
        """Keep figures for the table."""
        self.figures.extend(figures)

    def finish(self) -> int:
        """Print the table, append the JSON lines; the exit code, always 0."""
        print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors\n")
        rows = [("", "median", "range", "unit", "against", "ratio", "goal", "")]
        rows += [_row(one) for one in self.figures]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            cells = (
                cell.ljust(width) if i in (0, 3, 4) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            print("  ".join(cells).rstrip())
        if self.jsonl is not None:
            about = {"script": self.script, **_here()}
            with self.jsonl.open("a", encoding="utf-8") as file:
                for one in self.figures:
                    file.write(json.dumps({**about, **asdict(one), "met": one.met}) + "\n")
        return 0


def _here() -> dict[str, str]:
    """The machine, the revision and the day, as every figure of the page has them."""
    facts = environment_facts(Path(__file__).parent.parent)
    memory_gib = facts["memory"]["total_bytes"] / 2**30
    machine = f"{facts['cpu']['model']}, {os.cpu_count()} processors, {memory_gib:.0f} GiB"
    return {
        "machine": f"{machine}, {facts['os']['kernel']}",
        "revision": (facts["git"]["revision"] or "unknown")[:12],
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _row(one: Figure) -> tuple[str, ...]:
    return (
        one.name,
        f"{one.value:.4g}",
        f"{one.low:.4g} – {one.high:.4g}",
        one.unit,
        one.baseline or "",
        "" if one.ratio is None else f"{one.ratio:.3f}",
        "" if one.goal is None else f"≤ {one.goal:g}",
        {None: "", True: "met", False: "NOT MET"}[one.met],
    )


def start(doc: str | None, arguments: Sequence[str] | None = None) -> Bench:
    """Read `--jsonl PATH` from the command line; `doc` becomes the text of `--help`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    return Bench(parser.parse_args(arguments).jsonl)
