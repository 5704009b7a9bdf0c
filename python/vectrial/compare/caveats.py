"""What was amiss while the two sides were measured, one sentence each, with what to do about it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vectrial.compare.cells import load_of
from vectrial.compare.judge import Kind, Verdict
from vectrial.compare.sides import Subject
from vectrial.report.data import RunData, Trial
from vectrial.stats.disturbance import drift, first_stands_out, outliers

#: Beyond these, in the worst repeat of a side, there is a word about it.
OTHER_CORES_SHARE = 0.1
STEAL_SHARE = 0.01
THROTTLED_SHARE = 0.01
SLOWER_CLOCK = 0.9


def caveats(subjects: Sequence[Subject], verdicts: Sequence[Verdict]) -> list[str]:
    """Of the machine first, then of the repeats of each cell."""
    said: dict[str, None] = {}
    runs = {s.run_a.folder: s.run_a for s in subjects} | {s.run_b.folder: s.run_b for s in subjects}
    said |= dict.fromkeys(_machines(list(runs.values())))
    for subject in subjects:
        for side, run, trials in (("A", subject.run_a, subject.a), ("B", subject.run_b, subject.b)):
            for told in _weather(run, trials):
                said[f"{subject.title}, {side}: {told}"] = None
        for told in _versions(subject):
            said[f"{subject.title}: {told}"] = None
    for verdict in verdicts:
        if verdict.kind is not Kind.NOT_COMPARABLE:
            said |= dict.fromkeys(_repeats(verdict))
        whole = _place(replace(verdict, cell=replace(verdict.cell, metric=None, at="")))
        said |= {f"{whole}: {note}": None for note in verdict.cell.notes}
    return list(said)


def _machines(runs: Sequence[RunData]) -> Iterable[str]:
    if len(runs) < 2:
        return
    facts = [_facts(run.run["environment"]) for run in runs]
    for name in facts[0]:
        values = [str(one[name]) for one in facts]
        if len(set(values)) > 1:
            yield f"the machines differ in {name}: {' and '.join(values)}"
    yield (
        "two runs are two moments of the machine, and a change of the machine looks like one of"
        " the store: stores of one run are measured in turns"
    )


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    return {
        "processor": cpu.get("model"),
        "number of processors": cpu.get("logical"),
        "memory (GiB)": round((memory.get("total_bytes") or 0) / 2**30),
        "kernel": (environment.get("os") or {}).get("kernel"),
    }


def _weather(run: RunData, trials: Sequence[Trial]) -> Iterable[str]:
    """What the machine did beside, in the worst phase of one side."""
    processors = (run.run["environment"].get("cpu") or {}).get("logical") or 1
    # Of a server that runs elsewhere, or that was not started here, nobody knows what is its own.
    own = [t for t in trials if (t.server or {}).get("provider") != "external"]
    other, steal = _worst(own, "other_cores"), _worst(trials, "steal_share")
    if other > OTHER_CORES_SHARE * processors:
        yield (
            f"up to {other:.1f} of {processors} processors were busy with something else:"
            " end what else runs, and measure again"
        )
    if steal > STEAL_SHARE:
        yield (
            f"other guests of the host took up to {steal:.0%} of the processors (steal):"
            " a noisy neighbour; more repeats, another hour, or a machine of one's own"
        )
    throttled = _worst(trials, "throttled_share")
    if throttled > THROTTLED_SHARE:
        yield (
            f"the processor quota was used up for up to {throttled:.0%} of a phase (throttling):"
            " the quota was measured, not the store"
        )
    clocks = _values(trials, "cpu_mhz")
    if clocks and min(clocks) < SLOWER_CLOCK * max(clocks):
        yield (
            f"the processors' clock fell from {max(clocks):,.0f} to {min(clocks):,.0f} MHz:"
            " fix the frequency (governor 'performance'), or let the machine cool down"
        )


def _values(trials: Sequence[Trial], metric: str) -> list[float]:
    told = (p.value(metric) for t in trials for p in t.phases)
    return [value for value in told if value is not None]


def _worst(trials: Sequence[Trial], metric: str) -> float:
    return max(_values(trials, metric), default=0.0)


def _versions(subject: Subject) -> Iterable[str]:
    versions = [
        sorted({t.store_version for t in side if t.store_version})
        for side in (subject.a, subject.b)
    ]
    stores = {t.series.store for t in (*subject.a, *subject.b)}
    if len(stores) == 1 and all(versions) and versions[0] != versions[1]:
        yield f"versions {', '.join(versions[0])} in A and {', '.join(versions[1])} in B"
    bounds = [
        {str({n: (t.server or {}).get(n) for n in ("cores", "limits")}) for t in side if t.server}
        for side in (subject.a, subject.b)
    ]
    if all(bounds) and bounds[0] != bounds[1]:
        yield "the servers had other processors or limits in A than in B"


def _repeats(verdict: Verdict) -> Iterable[str]:
    cell = verdict.cell
    for side, by_repeat in (("A", cell.a), ("B", cell.b)):
        values = [by_repeat[r] for r in sorted(by_repeat)]
        where = f"{_place(verdict)}, {side}"
        if first_stands_out(values):
            yield (
                f"{where}: the first repeat stands out: caches were cold, or the machine was"
                " not at its pace yet; a longer warm-up, or a repeat to throw away"
            )
        elif odd := outliers(values):
            listed = ", ".join(str(sorted(by_repeat)[i]) for i in odd)
            away = max(abs(values[i] / statistics.median(values) - 1) for i in odd)
            yield (
                f"{where}: repeat {listed} stands out by {away:.0%}: something else ran;"
                " more repeats on a quiet machine"
            )
        change = drift(values)
        if change is not None:
            yield (
                f"{where}: {'rises' if change > 0 else 'falls'} steadily over the repeats, by"
                f" {abs(change):.0%} in all: the machine or the store is not in a steady state"
            )


def _place(verdict: Verdict) -> str:
    cell = verdict.cell
    metric = cell.metric.name if cell.metric else ""
    parts = [cell.subject, cell.experiment, cell.phase, load_of(cell.terms), cell.at, metric]
    return " · ".join(part for part in parts if part)
