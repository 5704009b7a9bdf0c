"""A subject's measurements, gathered under the terms on which they were taken."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.phase import Role
from vectrial.model.results_schema import MetricName
from vectrial.stats.curves import read_within

#: Parameters that are terms of a measurement whichever experiment it is of: the load, the question
#: and what is asked of writes. Two measurements are compared only where all are equal, and those
#: that the experiment declares. Every other parameter is a setting, which may differ.
_COMMON = {
    "k": "k",
    "returns": "what is returned",
    "durability": "durability",
    "loop": "loop",
    "clients": "clients",
    "rate": "offered load",
    "arrivals": "arrivals",
    "batch_rows": "rows per batch",
    "concurrency": "clients",
}
#: Values of parameters that a measurement does not record.
_DEFAULTS = {"returns": "ids"}
#: Parameters of a phase that are results and no settings: how a store knows that it is ready, and
#: whether it kept its promise.
_OUTCOMES = {"known_by", "verdict"}
_GATE = "gate failed"
NOT_RECORDED = "it was not recorded"
#: Metrics that say how much of the right answer was found.
JUDGED = ("recall_mean", "fusion_agreement")
#: Terms that come with the trial, not with its parameters; first, since they weigh most.
TRIAL_TERMS = {
    "dataset": "dataset",
    "rows": "rows",
    "data": "data",
    "queries": "queries",
    "metric_space": "metric",
    "lane": "lane",
}

#: A value, and the ids of the phases that it was measured in or read off between; by repeat.
Values = dict[int, tuple[float, tuple[int, ...]]]


def conditions_of(experiment: str) -> Mapping[str, str]:
    """The parameters that are terms of an experiment's measurements, with readable names; the
    parameters common to all experiments if it is not installed here."""
    if experiment not in EXPERIMENTS:
        return _COMMON
    return {**_COMMON, **EXPERIMENTS[experiment].terms}


def terms_of(experiment: str) -> Mapping[str, str]:
    """All terms of an experiment's measurements, with readable names."""
    return {**TRIAL_TERMS, **conditions_of(experiment)}


@dataclass
class RepeatedPhase:
    """One setting under the group's terms: phases by repeat, and faults of some of them."""

    setting: Mapping[str, Any]
    phases: dict[int, PhaseResult] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def values(self, metric: str) -> dict[int, float]:
        """Values of the metric by repeat, from the repeats that have it and can be trusted."""
        found = {r: phase.metrics.get(metric) for r, phase in self.phases.items()}
        return {
            r: v.value
            for r, v in found.items()
            if v is not None and v.valid and v.value is not None
        }

    @property
    def recalls(self) -> dict[int, float]:
        """Recall by repeat; for fused rankings the agreement with the exact fusion, which is the
        recall of its best."""
        return next(filter(None, map(self.values, JUDGED)), {})

    @property
    def median_recall(self) -> float:
        """The median of its recalls."""
        return statistics.median(self.recalls.values())

    def metric_values(self, metric: MetricName, *, judged: bool) -> Values:
        """The metric by repeat. judged: only repeats whose recall is known."""
        found = self.values(metric.name)
        kept = {r: v for r, v in found.items() if r in self.recalls} if judged else found
        return {r: (value, (self.phases[r].phase_id,)) for r, value in kept.items()}


@dataclass
class Group:
    """All measurements of one side in one phase of an experiment under the same terms.

    points: points by setting. lost: why trials under these terms have no phases at all. Without
        points, `phase` is empty, and `terms` are those known from the trial alone.
    """

    experiment: str
    phase: str
    terms: dict[str, Any]
    points: dict[str, RepeatedPhase] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    @property
    def is_search(self) -> bool:
        """True if recall was judged, so that figures are compared at equal recall."""
        return any(point.recalls for point in self.trusted_points)

    @property
    def trusted_points(self) -> list[RepeatedPhase]:
        """The points whose every repeat can be trusted: to use only the trusted repeats would be to
        select among the measurements."""
        return [point for point in self.points.values() if not point.faults]

    @property
    def curve(self) -> list[RepeatedPhase]:
        """The points whose recall is known."""
        return [point for point in self.trusted_points if point.recalls]

    @property
    def recall_range(self) -> tuple[float, float]:
        """The range of recall that every repeat of the curve covers; for a single point, its
        median."""
        points = self.curve
        if len(points) == 1:
            return points[0].median_recall, points[0].median_recall
        curves: dict[int, list[float]] = {}
        for point in points:
            for repeat, recall in point.recalls.items():
                curves.setdefault(repeat, []).append(recall)
        return max(min(c) for c in curves.values()), min(max(c) for c in curves.values())

    def values_at_recall(self, metric: MetricName, recall: float) -> Values:
        """The metric at this recall on each repeat's own curve."""
        points = self.curve
        if len(points) == 1:
            return points[0].metric_values(metric, judged=True)
        curves: dict[int, list[tuple[float, float]]] = {}
        phases: dict[int, list[int]] = {}
        for point in points:
            known = point.values(metric.name)
            for repeat, found in point.recalls.items():
                if repeat in known:
                    curves.setdefault(repeat, []).append((found, known[repeat]))
                    phases.setdefault(repeat, []).append(point.phases[repeat].phase_id)
        better = metric.better == "higher"
        at = {r: read_within(own, recall, higher_is_better=better) for r, own in curves.items()}
        return {
            repeat: (read.value, tuple(phases[repeat][i] for i in read.points))
            for repeat, read in at.items()
            if read is not None
        }

    @property
    def faults(self) -> list[str]:
        """Faults of points, and of trials that left no points, each once."""
        own = [fault for point in self.points.values() for fault in point.faults]
        return list(dict.fromkeys([*own, *self.lost]))

    @property
    def why_wrong(self) -> str | None:
        """The gate's verdict: a store with wrong answers is not compared at all."""
        return next((fault for fault in self.faults if fault.startswith(_GATE)), None)

    def has_metric(self, metric: str) -> bool:
        """True if the metric was recorded, even without a value."""
        return any(metric in p.metrics for one in self.points.values() for p in one.phases.values())

    def why_missing(self, metric: str) -> str:
        """Reason for a missing value of the metric."""
        reasons = [
            phase.metrics[metric].reason
            for point in self.points.values()
            for phase in point.phases.values()
            if metric in phase.metrics
        ]
        return next((reason for reason in reasons if reason), NOT_RECORDED)

    @property
    def why_unjudged(self) -> str:
        """Reason why a point has no trustworthy recall."""
        reasons = (self.why_missing(name) for name in JUDGED if self.has_metric(name))
        return next(
            (why for why in reasons if why != NOT_RECORDED), next(iter(self.faults), NOT_RECORDED)
        )

    def differing_terms(self, other: Group) -> list[str]:
        """The terms in which the two groups differ, most important first. Unknown terms of a group
        without a phase do not count as differences."""
        known = [
            t
            for t in terms_of(self.experiment)
            if all(g.points or t in g.terms for g in (self, other))
        ]
        return [t for t in known if self.terms.get(t) != other.terms.get(t)]


def groups_of(run: RunData, trials: Sequence[Trial]) -> list[Group]:
    """Every group of one side, in the order measured. Incomplete trials are reported in the groups
    that share their terms, or as a group without points."""
    found: dict[tuple[str, str, str], Group] = {}
    for trial in trials:
        for phase, occurrence in _number_phases(_results(trial)):
            given = {**trial.params, **phase.params}
            terms = measured_terms(run, trial, given)
            key = (trial.experiment, phase.name, _stable(terms))
            group = found.setdefault(key, Group(trial.experiment, phase.name, terms))
            setting = {**trial.index_params, **_settings(trial.experiment, given)}
            if occurrence:
                setting["occurrence"] = occurrence + 1
            point = group.points.setdefault(_stable(setting), RepeatedPhase(setting))
            point.phases[trial.repeat] = phase
            if fault := _fault(trial, phase):
                point.faults.append(fault)
    groups = list(found.values())
    for trial in trials:
        if trial.status == "failed" or not _results(trial):
            _record_missing(run, trial, groups)
    return groups


def _results(trial: Trial) -> list[PhaseResult]:
    """The phases that are results, without steps towards a result."""
    return [p for p in trial.phases if p.role != Role.STEP]


def _number_phases(phases: Iterable[PhaseResult]) -> Iterable[tuple[PhaseResult, int]]:
    """Each phase with the number of like phases before it in the trial."""
    seen: dict[tuple[str, str], int] = {}
    for phase in phases:
        key = (phase.name, _stable(phase.params))
        seen[key] = seen.get(key, -1) + 1
        yield phase, seen[key]


def measured_terms(run: RunData, trial: Trial, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of a measurement with these parameters: those of its trial and its phase."""
    row = next(
        (d for d in run.datasets if (d["name"], d["rows"]) == (trial.dataset, trial.rows)), {}
    )
    terms: dict[str, Any] = {
        "dataset": trial.dataset,
        "rows": trial.rows,
        "data": row.get("fingerprint"),
        "queries": row.get("queries"),
        "metric_space": row.get("metric_space"),
        "lane": trial.series.lane,
    }
    return terms | _DEFAULTS | _conditions(trial.experiment, parameters)


def _conditions(experiment: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    only_with = EXPERIMENTS[experiment].only_with if experiment in EXPERIMENTS else {}
    names = conditions_of(experiment)
    return {
        n: parameters[n] for n in names if n in parameters and only_with.get(n, n) in parameters
    }


def _settings(experiment: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    terms = _conditions(experiment, parameters).keys() | _OUTCOMES
    return {name: value for name, value in parameters.items() if name not in terms}


def _fault(trial: Trial, phase: PhaseResult) -> str | None:
    """Reason why a measured phase must not be compared; correctness takes precedence over speed."""
    wrong = [c for c in trial.gate if c.passed is False and c.relevant]
    if wrong:
        return f"{_GATE}: " + "; ".join(f"{c.name}: {c.detail}" for c in wrong[:2])
    if not phase.valid:
        reason = phase.reason or "invalid"
        return reason if reason.startswith("client-bound") else f"invalid: {reason}"
    if trial.status != "ok" and not any(not one.valid for one in trial.phases):
        return f"{trial.status}: {trial.reason}"
    return None


def _record_missing(run: RunData, trial: Trial, groups: list[Group]) -> None:
    """Record a trial's missing repeat in the points that lack it, or in the groups where it
    belongs; otherwise in a new, empty group."""
    why = f"{trial.status}: {trial.reason}"
    terms = measured_terms(run, trial, trial.params)
    known = {n: v for n, v in terms.items() if n not in _DEFAULTS or n in trial.params}
    given = {**trial.index_params, **trial.params}
    bare = not _results(trial)
    near = [
        group
        for group in groups
        if group.experiment == trial.experiment
        and all(group.terms.get(name) == value for name, value in known.items())
    ]
    for group in near:
        mine = [
            point
            for point in group.points.values()
            if given.items() <= {**group.terms, **point.setting}.items()
        ]
        for point in mine:
            if trial.repeat not in point.phases:
                point.faults.append(why)
        if bare and not mine:
            group.lost.append(why)
    if bare and not near:
        groups.append(Group(trial.experiment, "", known, lost=[why]))


def _stable(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, default=str)
