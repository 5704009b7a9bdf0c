"""A whole comparison, from what the command line says to verdicts, with a sentence and a remedy for
each disturbance of the two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vectrial.analysis.interference import disturbed_phases, machine_interference, repeat_variation
from vectrial.analysis.run_data import RunData
from vectrial.compare.cells import CompareOptions, cells_of, load_of
from vectrial.compare.judge import Verdict, judge, with_turn_evidence
from vectrial.compare.sides import ComparedStore, Side, subjects
from vectrial.experiments.registry import all_metrics
from vectrial.model.errors import UserError
from vectrial.model.results_schema import MetricName
from vectrial.stats.effects import ALPHA
from vectrial.stats.verdict import MOST_REPEATS, VerdictKind
from vectrial.util import formatting
from vectrial.util.suggest import suggestion

#: Metrics that are compared by default: speed, its tail, the sustained load, the time until ready,
#: and disk usage.
DEFAULT_METRICS = ("qps", "p99", "sustained_qps", "ready_s", "disk")
#: Short names; every metric of the schema goes by its own, too.
ALIASES = {
    "p50": "latency_p50",
    "p90": "latency_p90",
    "p95": "latency_p95",
    "p99": "latency_p99",
    "p99.9": "latency_p99_9",
    "max": "latency_max",
    "mean": "latency_mean",
    "recall": "recall_mean",
    "disk": "disk_bytes",
    "memory": "rss_growth_bytes",
}


@dataclass(frozen=True)
class Comparison:
    """Result of comparing B with A. alone: items that only one of the two has. caveats:
    disturbances. advice: commands that will likely settle undecided verdicts."""

    a: Side
    b: Side
    verdicts: tuple[Verdict, ...]
    threshold: float
    alone: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def with_kind(self, kind: VerdictKind) -> list[Verdict]:
        """The verdicts of one kind, in order."""
        return [v for v in self.verdicts if v.kind is kind]

    @property
    def headline(self) -> str:
        """'1 worse, 5 ties, 2 undecided'."""
        counts = Counter(v.kind for v in self.verdicts)
        names = {
            VerdictKind.WORSE: ("worse", "worse"),
            VerdictKind.BETTER: ("better", "better"),
            VerdictKind.TIE: ("tie", "ties"),
            VerdictKind.UNDECIDED: ("undecided", "undecided"),
            VerdictKind.NOT_COMPARABLE: ("not comparable", "not comparable"),
        }
        parts = [f"{counts[k]} {names[k][counts[k] != 1]}" for k in names if counts[k]]
        return ", ".join(parts) or "nothing to compare"


def metrics_of(names: Sequence[str]) -> tuple[MetricName, ...]:
    """The metrics of these names or short names, each once.

    Raises:
        UserError: an unknown name, or a metric of which neither more nor less is better.
    """
    known, found = all_metrics(), {}
    for name in names:
        metric = known.get(ALIASES.get(name, name))
        if metric is None:
            possible = [*ALIASES, *(m.name for m in known.values() if m.better)]
            raise UserError(
                f"'{name}' is not a metric",
                where="--metric",
                remedy=suggestion(name, possible) or f"for example {', '.join(ALIASES)}",
            )
        if metric.better is None:
            raise UserError(f"of '{name}' neither more nor less is better", where="--metric")
        found[metric.name] = metric
    return tuple(found.values())


def compare(a: Side, b: Side, options: CompareOptions, threshold: float) -> Comparison:
    """Compare B with A.

    Raises:
        UserError: they have no store in common, or neither measured what is asked for.
    """
    pairs, alone = subjects(a, b)
    found = [
        (with_turn_evidence(cell, pair.run_a, pair.run_b), pair)
        for pair in pairs
        for cell in cells_of(pair, options)
    ]
    if not found:
        names = ", ".join(m.name for m in options.metrics)
        where = f" in {', '.join(options.experiments)}" if options.experiments else ""
        raise UserError(
            f"neither side has measured {names}{where}",
            remedy="vectrial report RUN --format jsonl shows what there is",
        )
    disturbed = disturbed_phases(a.run), disturbed_phases(b.run)
    judged = judge([cell for cell, _ in found], threshold, ALPHA, *disturbed)
    verdicts = tuple(
        _with_effort(verdict, pair) for verdict, (_, pair) in zip(judged, found, strict=True)
    )
    said = tuple(caveats(pairs, verdicts))
    return Comparison(a, b, verdicts, threshold, tuple(alone), said, tuple(_advice(a, b, verdicts)))


def _with_effort(verdict: Verdict, pair: ComparedStore) -> Verdict:
    """The verdict; if it is undecided, with the number of repeats that would likely settle it."""
    if verdict.kind is not VerdictKind.UNDECIDED or verdict.disturbed:
        return verdict
    by_round = verdict.cell.paired is not None and verdict.cell.paired.store is None
    if by_round and verdict.more is not None:
        effort = f"about {verdict.more:,} more rounds would decide it of these indexes"
    elif verdict.more is None:
        effort = f"more than {MOST_REPEATS} more repeats would be needed"
    else:
        count = formatting.plural(verdict.more, "more repeat")
        effort = f"about {count} ({formatting.seconds(verdict.more * pair.repeat_s)}) would decide"
    return replace(verdict, reason=f"{verdict.reason}; {effort}")


def _advice(a: Side, b: Side, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Commands that will likely settle undecided verdicts."""
    undecided = [v for v in verdicts if v.kind is VerdictKind.UNDECIDED]
    runs = list({side.run.folder: side.run for side in (a, b)}.values())
    disturbed = [v for v in undecided if v.disturbed]
    if disturbed:
        commands = [f"vectrial run --resume {run.folder} --remeasure-disturbed" for run in runs]
        yield f"{len(disturbed)} undecided for a disturbed machine: {', and '.join(commands)}"
    able = [
        v.more
        for v in undecided
        if v.more is not None
        and not v.disturbed
        and (v.cell.paired is None or v.cell.paired.store is not None)
    ]
    if able:
        commands = [
            f"vectrial run --resume {run.folder} --repeats"
            f" {max(t.repeat for t in run.trials) + max(able)}"
            for run in runs
        ]
        yield f"{len(able)} undecided that more repeats would decide: {', and '.join(commands)}"


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
        whole = _caveat_place(replace(verdict, cell=replace(verdict.cell, metric=None, at="")))
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
            yield f"{_caveat_place(verdict)}, {side}: {sign.seen}: {sign.remedy}"


def _caveat_place(verdict: Verdict) -> str:
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
