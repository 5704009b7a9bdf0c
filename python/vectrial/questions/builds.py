"""The search over builds: it decides which build to try next, which to drop early, and which is
best.

The search is a generator: it yields the build to measure, on a number of rows, and is sent the
candidates. Each build is measured at several values of its search parameter. Optuna (TPE, seeded)
chooses the builds after the first, which uses the store's defaults. With several `steps`, a build
is measured on fewer rows first and dropped there if it is below the median of the earlier builds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial.model.errors import NotInstalled
from vectrial.questions.space import Choices, Knob
from vectrial.stats.curves import read_at

#: One in this many builds is random, before Optuna learns from results.
_RANDOM_SHARE = 3
#: Builds measured on fewer rows before one may be dropped.
_BEFORE_PRUNING = 3
#: Values of builds that failed, and that are just beyond the limits; better builds are above.
_FAILED, _SMALL = -2.0, 1e-9


@dataclass(frozen=True)
class TuneLimits:
    """Minimum mean recall; maximum p99 in µs and resident bytes, None for no limit."""

    recall: float
    p99_us: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True)
class Build:
    """A kind of index with build parameters; other parameters keep the store's defaults."""

    kind: str
    params: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Label for a person."""
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.params.items())])


@dataclass(frozen=True)
class Candidate:
    """A build at one operating point: metrics of the same requests, and memory of the build."""

    build: Build
    search: Mapping[str, Any]
    recall: float
    qps: float
    p99_us: float | None
    memory_bytes: float | None

    def fault(self, limits: TuneLimits) -> str | None:
        """The first limit that the candidate exceeds, or None."""
        if self.recall < limits.recall:
            return f"recall {self.recall:.4f}"
        if limits.p99_us is not None:
            if self.p99_us is None:
                return "its p99 is not known of so few requests"
            if self.p99_us > limits.p99_us:
                return f"p99 {self.p99_us / 1e3:,.4g} ms"
        if limits.memory_bytes is not None:
            if self.memory_bytes is None:
                return "its memory is not known"
            if self.memory_bytes > limits.memory_bytes:
                return f"memory {self.memory_bytes / 2**20:,.4g} MiB"
        return None

    def distance_from_limits(self, limits: TuneLimits) -> float:
        """Distance from the limits, 0 (within all) to 1: the mean relative excess over them."""
        missed = [1 - self.recall / limits.recall if limits.recall else 0.0]
        if limits.p99_us is not None:
            p99_us = self.p99_us
            missed.append(1.0 if p99_us is None else 1 - limits.p99_us / p99_us if p99_us else 0.0)
        if limits.memory_bytes is not None:
            used = self.memory_bytes
            missed.append(1.0 if used is None else 1 - limits.memory_bytes / used if used else 0.0)
        return sum(max(0.0, one) for one in missed) / len(missed)


@dataclass(frozen=True)
class BuildMeasurement:
    """Candidates of one build on some rows. reason: why there are none."""

    candidates: Sequence[Candidate]
    reason: str = ""


@dataclass
class TriedBuild:
    """The outcome of one build. state: "complete", "pruned", "again" (measured before) or "failed".
    value: the objective. best: its fastest candidate within the limits."""

    number: int
    build: Build
    state: str
    value: float
    best: Candidate | None
    reason: str = ""
    candidates: Sequence[Candidate] = field(default_factory=tuple)


@dataclass(frozen=True)
class BuildRequest:
    """A build to measure on the first `rows` rows."""

    build: Build
    rows: int


def search(
    kinds: Mapping[str, tuple[Knob, ...]],
    first: Mapping[str, Mapping[str, Any]],
    limits: TuneLimits,
    *,
    steps: Sequence[int],
    budget: int,
    seed: int,
    on_build: Callable[[TriedBuild], None] = lambda _: None,
) -> Generator[BuildRequest, BuildMeasurement, list[TriedBuild]]:
    """Try `budget` builds; returns what became of each.

    Args:
        kinds: parameters to vary, by kind of index. first: the first build of each kind; a build
            that leaves parameters to the store is measured on all rows at once.
        steps: numbers of rows, ascending, up to all.

    Raises:
        NotInstalled: Optuna is missing.
    """
    try:
        import optuna
    except ImportError as error:
        raise NotInstalled("tuning needs Optuna: pip install 'vectrial[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=max(2, budget // _RANDOM_SHARE)
        ),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_BEFORE_PRUNING),
    )
    # Optuna needs a number for each parameter, which such a build does not have.
    partial = [Build(k, params) for k, params in first.items() if len(params) < len(kinds[k])]
    for kind, params in first.items():
        if len(params) == len(kinds[kind]):
            named = {f"{kind}.{name}": value for name, value in params.items()}
            study.enqueue_trial({"index": kind, **named})
    tried: list[TriedBuild] = []
    for number in range(1, budget + 1):
        if number <= len(partial):
            one = yield from _measure_build(number, partial[number - 1], None, limits, steps[-1:])
        else:
            trial = study.ask()
            build = _suggest(trial, kinds)
            known = _measured_before(number, build, tried)
            one = known or (yield from _measure_build(number, build, trial, limits, steps))
            pruned = one.state == "pruned"
            state = optuna.trial.TrialState.PRUNED if pruned else optuna.trial.TrialState.COMPLETE
            study.tell(trial, None if pruned else one.value, state=state)
        tried.append(one)
        on_build(one)
    return tried


def _suggest(trial: Any, kinds: Mapping[str, tuple[Knob, ...]]) -> Build:
    kind = trial.suggest_categorical("index", list(kinds))
    params: dict[str, Any] = {}
    for knob in kinds[kind]:
        name = f"{kind}.{knob.name}"
        if isinstance(knob, Choices):
            params[knob.name] = trial.suggest_categorical(name, list(knob.values))
        else:
            params[knob.name] = trial.suggest_int(name, knob.low, knob.high, log=True)
    return Build(kind, params)


def _measured_before(number: int, build: Build, tried: Sequence[TriedBuild]) -> TriedBuild | None:
    for one in tried:
        if one.build == build:
            reason = f"as build {one.number}"
            return TriedBuild(number, build, "again", one.value, one.best, reason, one.candidates)
    return None


def _measure_build(
    number: int,
    build: Build,
    trial: Any,
    limits: TuneLimits,
    steps: Sequence[int],
) -> Generator[BuildRequest, BuildMeasurement, TriedBuild]:
    for rows in steps:
        measured = yield BuildRequest(build, rows)
        best, value, reason = best_of(measured, limits)
        if not measured.candidates:
            return TriedBuild(number, build, "failed", value, None, reason)
        if rows != steps[-1]:
            trial.report(value, rows)
            if trial.should_prune():
                reason = f"worse than the median on {rows:,} rows"
                return TriedBuild(number, build, "pruned", value, None, reason)
    return TriedBuild(number, build, "complete", value, best, reason, measured.candidates)


def best_of(measured: BuildMeasurement, limits: TuneLimits) -> tuple[Candidate | None, float, str]:
    """The fastest candidate within the limits, the objective of the build, and the reason for
    having no such candidate.

    The objective is the QPS at exactly the wanted recall. Without such a candidate it is negative,
    and closer to 0 the closer a candidate comes to the limits.
    """
    if not measured.candidates:
        return None, _FAILED, measured.reason
    able = [one for one in measured.candidates if one.fault(limits) is None]
    if able:
        best = max(able, key=lambda one: one.qps)
        return best, _qps_at(measured.candidates, able, limits.recall), ""
    nearest = min(measured.candidates, key=lambda one: (one.distance_from_limits(limits), -one.qps))
    return None, -nearest.distance_from_limits(limits) - _SMALL, nearest.fault(limits) or ""


def _qps_at(candidates: Sequence[Candidate], able: Sequence[Candidate], recall: float) -> float:
    """QPS at exactly this recall, between the settings that miss it and the settings within the
    limits: a build is not worse for reaching the recall just below a setting."""
    points = [(one.recall, one.qps) for one in candidates if one.recall < recall or one in able]
    reading = read_at(points, recall)
    fastest = max(one.qps for one in able)
    return fastest if reading is None else max(fastest, reading.value)


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that no other candidate exceeds in both recall and QPS, by recall."""
    front: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (-one.recall, -one.qps)):
        if not front or one.qps > front[-1].qps:
            front.append(one)
    return front[::-1]
