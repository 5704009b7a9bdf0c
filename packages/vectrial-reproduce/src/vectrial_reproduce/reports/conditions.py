"""The conditions of a reproduction: machine, stores and versions, rows, repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.stats.intervals import LEAST_REPEATS, RANGE_REPEATS
from vectrial.util import formatting
from vectrial_reproduce.reports.collect import ComparedFigure, replacement_note
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.memory import OPTION, memory_in_words
from vectrial_reproduce.reports.model import Reproduction, Scalar
from vectrial_reproduce.reports.planning import Settings
from vectrial_reproduce.reports.tables import system

#: Note if not all of the report's rows were loaded.
FEWER = (
    "Not all of the report's rows were loaded: searches of a small collection are faster and find"
    " more than those of a large one."
)
#: Largest number of reasons that are listed above the tables for a system's invalid figures.
_REASONS = 2


@dataclass(frozen=True)
class LoadedData:
    """The data that a part was measured on.

    rows, published_rows: numbers of rows here and in the report. queries: number of queries; None
        if nothing was searched. stands_for: the report's dataset, if that was not available.
    """

    title: str
    dataset: str
    rows: int
    published_rows: int
    queries: int | None = None
    stands_for: str = ""

    @property
    def share(self) -> str:
        """'5.4 %' of the report's rows; empty if all rows were loaded."""
        return (
            ""
            if self.rows >= self.published_rows
            else f"{formatting.number(100 * self.rows / self.published_rows, 2)} %"
        )


@dataclass(frozen=True)
class MeasuredSystem:
    """A system of the report and the store measured for it.

    here: what the store is, if it is not that system. versions: versions that it reports. differs:
        how it differs. forces: behaviour unlike other stores' that cannot be changed.
    """

    published: str
    store: str
    here: str
    versions: tuple[str, ...]
    differs: str = ""
    forces: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportConditions:
    """The conditions of all parts. machine: ours. made: date and version of Vectrial. only: the
    requested parts; empty: all. builds: requested values of the grid; empty: all. memory: what
    limited the servers' memory, in words; empty if the report does not say what its systems had."""

    scale: float
    machine: str
    loaded: tuple[LoadedData, ...] = ()
    systems: tuple[MeasuredSystem, ...] = ()
    faithful: bool = False
    repeats: int = 1
    made: str = ""
    only: tuple[str, ...] = ()
    memory: str = ""
    memory_limit: bool = False
    builds: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def is_full_size(self) -> bool:
        """True if every part has all the rows of the report."""
        return not any(part.share for part in self.loaded)

    @property
    def repeated(self) -> str:
        """The number of repeats, and the statistic used for figures."""
        if self.repeats == 1:
            return "Everything was measured once: how much it varies is not known."
        around = (
            "the 95 % interval of that median (bootstrap)"
            if self.repeats > RANGE_REPEATS
            else "the interval of that median, which of so few is their range"
            if self.repeats >= LEAST_REPEATS
            else "their range"
        )
        return (
            f"Everything was measured {self.repeats} times: each figure is the median,"
            f" and beside it stands {around}."
        )

    @property
    def options(self) -> str:
        """The options of the command line."""
        own = ", --faithful: by the report's own method as far as the method notes say"
        parts = "".join(f" --part {name}" for name in self.only)
        parts += "".join(f" --build {name}={value}" for name, value in self.builds.items())
        limit = f" {OPTION}" if self.memory_limit else ""
        return f"--scale {self.scale:g}{parts}{limit}{own if self.faithful else ''}"


def conditions_of(
    report: Reproduction, measured: Mapping[str, MeasuredPart], settings: Settings
) -> ReportConditions:
    """The conditions of a reproduction. measured: measured parts by name."""
    parts = {part.name: part for part in report.parts}
    # Of some parts nothing was measured: no store can what they ask.
    measured = {
        name: one for name, one in measured.items() if any(trial.phases for trial in one.run.trials)
    }
    runs = [one.run for one in measured.values()]
    loaded = []
    for name, one in measured.items():
        part, instead = parts[name], replacement_note(parts[name], one.dataset)
        loaded.append(
            LoadedData(
                part.title, one.dataset, one.rows, part.rows, _queries(one),
                part.dataset if instead else "",
            )
        )  # fmt: skip
    return ReportConditions(
        settings.scale,
        _machine([run.run["environment"] for run in runs]),
        tuple(loaded),
        tuple(_systems(report, measured)),
        settings.faithful,
        settings.repeats,
        _machines(runs),
        settings.only,
        memory_in_words(report, measured, limited=settings.memory_limit),
        settings.memory_limit,
        settings.builds,
    )


def _queries(measured: MeasuredPart) -> int | None:
    """The number of queries of a part that was searched."""
    run = measured.run
    if not any(phase.name == "search" for trial in run.trials for phase in trial.phases):
        return None
    known = [row["queries"] for row in run.datasets if row["name"] == measured.dataset]
    return max(known, default=None)


def _systems(
    report: Reproduction, measured: Mapping[str, MeasuredPart]
) -> Iterator[MeasuredSystem]:
    """Every system that was measured, in the report's order."""
    found: dict[tuple[str, str], list[MeasuredSystem]] = {}
    for part in report.parts:
        run = measured[part.name].run if part.name in measured else None
        for arm in part.arms if run is not None else ():
            assert run is not None
            mine = [trial for trial in run.trials if trial.series.store == arm.store]
            versions = tuple(dict.fromkeys(t.store_version for t in mine if t.store_version))
            if not any(trial.phases for trial in mine):
                continue
            one = MeasuredSystem(
                arm.published, arm.store, arm.here, versions, arm.note,
                run.differences.get(arm.store, ()),
            )  # fmt: skip
            found.setdefault((arm.published, arm.store), []).append(one)
    for (published, store), same in found.items():
        differ = [one.differs.split("; ") for one in same]
        yield MeasuredSystem(
            published,
            store,
            same[0].here,
            tuple(dict.fromkeys(version for one in same for version in one.versions)),
            "; ".join(filter(None, dict.fromkeys(said for one in differ for said in one))),
            tuple(dict.fromkeys(said for one in same for said in one.forces)),
        )


def invalid_figures(cells: Sequence[ComparedFigure]) -> Iterator[str]:
    """A sentence for each system with invalid figures: their number, and the reasons if there are
    few."""
    found: dict[str, dict[str, None]] = {}
    counts: Counter[str] = Counter()
    every = (one for cell in cells for one in (cell, cell.through) if one is not None)
    for cell in every:
        if cell.valid is False:
            name = system(cell.figure.store, cell.here)
            name += f" through {cell.client}" if cell.client else ""
            found.setdefault(name, {})[cell.why] = None
            counts[name] += 1
    for name, reasons in found.items():
        why = "; ".join(reasons) if len(reasons) <= _REASONS else "their notes say why"
        count = formatting.plural(counts[name], "measured figure")
        yield f"{name}: {count} may not be trusted (✗): {why}."


def _machine(environments: Sequence[Mapping[str, Any]]) -> str:
    """Description of the first run's machine."""
    if not environments:
        return "nothing was measured"
    facts = environments[0]
    cpu, memory = facts.get("cpu") or {}, (facts.get("memory") or {}).get("total_bytes")
    parts = [
        str(cpu.get("model") or "unknown processor"),
        f"{cpu['logical']} cores" if cpu.get("logical") else "",
        f"{memory / 2**30:.0f} GiB" if isinstance(memory, int | float) else "",
        str((facts.get("os") or {}).get("name") or ""),
    ]
    return ", ".join(part for part in parts if part)


def _machines(runs: Sequence[RunData]) -> str:
    """'Measured on 2026-11-21 by Vectrial 0.1.0 (f8ae180b0e3b).', as far as known from the runs."""
    days = sorted({f"{run.run['started_at']:%Y-%m-%d}" for run in runs if run.run["started_at"]})
    by = dict.fromkeys(f"{run.run['vectrial_version']}{_revision(run.run)}" for run in runs)
    if not days:
        return ""
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    return f"Measured on {when} by Vectrial {', '.join(by)}."


def _revision(run: Mapping[str, Any]) -> str:
    revision = run.get("git_revision")
    return f" ({str(revision)[:12]})" if revision else ""
