"""Disturbances during the measurement of the two sides: a sentence each, with a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vectrial.analysis.interference import machine_interference, repeat_variation
from vectrial.analysis.run_data import RunData
from vectrial.compare.cells import load_of
from vectrial.compare.judge import Verdict
from vectrial.compare.sides import ComparedStore
from vectrial.stats.verdict import VerdictKind


def caveats(subjects: Sequence[ComparedStore], verdicts: Sequence[Verdict]) -> list[str]:
    """Caveats on the machine first, then on the repeats of each cell."""
    said: dict[str, None] = {}
    runs = {s.run_a.folder: s.run_a for s in subjects} | {s.run_b.folder: s.run_b for s in subjects}
    said |= dict.fromkeys(_machines(list(runs.values())))
    for subject in subjects:
        for side, run, trials in (("A", subject.run_a, subject.a), ("B", subject.run_b, subject.b)):
            for sign in machine_interference(run, trials):
                said[f"{subject.title}, {side}: {sign.seen}: {sign.remedy}"] = None
        for note in _versions(subject):
            said[f"{subject.title}: {note}"] = None
    for verdict in verdicts:
        if verdict.kind is not VerdictKind.NOT_COMPARABLE:
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
        "the two runs were measured at different times, so a change of the machine looks like one"
        " of the store; in one suite with order = 'turns' both are measured in the same seconds"
    )


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    return {
        "processor": cpu.get("model"),
        "number of processors": cpu.get("logical"),
        "memory (GiB)": round((memory.get("total_bytes") or 0) / 2**30),
        "joining of free memory before each load": memory.get("compacted", False),
        "kernel": (environment.get("os") or {}).get("kernel"),
    }


def _versions(subject: ComparedStore) -> Iterable[str]:
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
        for sign in repeat_variation({repeat: by_repeat[repeat] for repeat in sorted(by_repeat)}):
            yield f"{_place(verdict)}, {side}: {sign.seen}: {sign.remedy}"


def _place(verdict: Verdict) -> str:
    cell = verdict.cell
    metric = cell.metric.name if cell.metric else ""
    parts = [
        cell.subject,
        cell.experiment,
        cell.phase,
        load_of(cell.experiment, cell.terms),
        cell.at,
        metric,
    ]
    return " · ".join(part for part in parts if part)
