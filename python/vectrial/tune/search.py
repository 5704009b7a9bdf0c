"""The search over builds: which to try next, which to leave early, and which is best.

One build is measured at a whole ladder of search parameters, so that these cost nothing but their
searches. Which build is next is Optuna's affair (TPE, seeded); the store's own parameters are the
first. Where there are many rows, a build is measured on a share of them first, and left when it
does worse there than the median of those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial.model.errors import NotInstalled
from vectrial.tune.space import Choice, Knob

#: Builds that are drawn at random before any is drawn from what was learnt, as a share of all.
_RANDOM_SHARE = 3
#: Builds on a share of the rows before one is left for being worse.
_BEFORE_PRUNING = 3
#: What a build is compared by that did nothing: worse than any that did; and what sets those beyond
#: the limits apart from any within them.
_FAILED, _SMALL = -2.0, 1e-9


@dataclass(frozen=True)
class Limits:
    """What a choice keeps: least mean recall; greatest p99 in µs, resident bytes; None: any."""

    recall: float
    p99_us: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True)
class Build:
    """A kind of index with the build parameters that were turned."""

    kind: str
    params: Mapping[str, Any]

    @property
    def label(self) -> str:
        """For a person."""
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.params.items())])


@dataclass(frozen=True)
class Candidate:
    """A build at one operating point; figures of the same requests, memory of the whole build."""

    build: Build
    search: Mapping[str, Any]
    recall: float
    qps: float
    p99_us: float
    memory_bytes: float | None

    def fault(self, limits: Limits) -> str | None:
        """Which limit it does not keep, or None."""
        if self.recall < limits.recall:
            return f"recall {self.recall:.4f}"
        if limits.p99_us is not None and self.p99_us > limits.p99_us:
            return f"p99 {self.p99_us / 1e3:,.4g} ms"
        if limits.memory_bytes is not None:
            if self.memory_bytes is None:
                return "its memory is not known"
            if self.memory_bytes > limits.memory_bytes:
                return f"memory {self.memory_bytes / 2**20:,.4g} MiB"
        return None

    def beyond(self, limits: Limits) -> float:
        """How far beyond the limits it is, from 0 (within all) to 1: the mean over the limits of
        the share by which each is missed."""
        missed = [1 - self.recall / limits.recall if limits.recall else 0.0]
        if limits.p99_us is not None:
            missed.append(1 - limits.p99_us / self.p99_us if self.p99_us else 0.0)
        if limits.memory_bytes is not None:
            held = self.memory_bytes
            missed.append(1.0 if held is None else 1 - limits.memory_bytes / held if held else 0.0)
        return sum(max(0.0, one) for one in missed) / len(missed)


@dataclass(frozen=True)
class Measured:
    """What a build did on so many rows. reason: why it did nothing."""

    candidates: Sequence[Candidate]
    reason: str = ""


@dataclass
class Tried:
    """One build, as far as it came. state: "complete", "pruned", "again" (measured before) or
    "failed". value: what was compared; best: its best candidate within the limits."""

    number: int
    build: Build
    state: str
    value: float
    best: Candidate | None
    reason: str = ""
    candidates: Sequence[Candidate] = field(default_factory=tuple)


Evaluate = Callable[[Build, int], Measured]


def search(
    kinds: Mapping[str, tuple[Knob, ...]],
    first: Mapping[str, Mapping[str, Any]],
    evaluate: Evaluate,
    limits: Limits,
    *,
    steps: Sequence[int],
    budget: int,
    seed: int,
    tell: Callable[[Tried], None] = lambda _: None,
) -> list[Tried]:
    """Try `budget` builds.

    Args:
        kinds: what may be turned of each kind of index. first: a build of each to begin with; what
            it does not name is left to the store, and then all rows are measured at once.
        evaluate: measures a build on so many rows.
        steps: numbers of rows, ascending; the last are all.

    Raises:
        NotInstalled: there is no Optuna.
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
    # Optuna would draw what such a build leaves to the store, which is no number.
    left_open = [Build(k, params) for k, params in first.items() if len(params) < len(kinds[k])]
    for kind, params in first.items():
        if len(params) == len(kinds[kind]):
            named = {f"{kind}.{name}": value for name, value in params.items()}
            study.enqueue_trial({"index": kind, **named})
    tried: list[Tried] = []
    for number in range(1, budget + 1):
        if number <= len(left_open):
            one = _try(number, left_open[number - 1], None, evaluate, limits, steps[-1:])
        else:
            trial = study.ask()
            build = _drawn(trial, kinds)
            one = _measured_before(number, build, tried) or _try(
                number, build, trial, evaluate, limits, steps
            )
            pruned = one.state == "pruned"
            state = optuna.trial.TrialState.PRUNED if pruned else optuna.trial.TrialState.COMPLETE
            study.tell(trial, None if pruned else one.value, state=state)
        tried.append(one)
        tell(one)
    return tried


def _drawn(trial: Any, kinds: Mapping[str, tuple[Knob, ...]]) -> Build:
    kind = trial.suggest_categorical("index", list(kinds))
    params: dict[str, Any] = {}
    for knob in kinds[kind]:
        name = f"{kind}.{knob.name}"
        if isinstance(knob, Choice):
            params[knob.name] = trial.suggest_categorical(name, list(knob.values))
        else:
            params[knob.name] = trial.suggest_int(name, knob.low, knob.high, log=True)
    return Build(kind, params)


def _measured_before(number: int, build: Build, tried: Sequence[Tried]) -> Tried | None:
    for one in tried:
        if one.build == build:
            reason = f"as build {one.number}"
            return Tried(number, build, "again", one.value, one.best, reason, one.candidates)
    return None


def _try(
    number: int,
    build: Build,
    trial: Any,
    evaluate: Evaluate,
    limits: Limits,
    steps: Sequence[int],
) -> Tried:
    for rows in steps:
        measured = evaluate(build, rows)
        best, value, reason = judged(measured, limits)
        if not measured.candidates:
            return Tried(number, build, "failed", value, None, reason)
        if rows != steps[-1]:
            trial.report(value, rows)
            if trial.should_prune():
                said = f"worse than the median on {rows:,} rows"
                return Tried(number, build, "pruned", value, None, said)
    return Tried(number, build, "complete", value, best, reason, measured.candidates)


def judged(measured: Measured, limits: Limits) -> tuple[Candidate | None, float, str]:
    """The fastest candidate within the limits, what builds are compared by, and why there is none.

    Where none is within the limits, what is nearer to them is better, so that a search is led to
    them; all within are better still.
    """
    if not measured.candidates:
        return None, _FAILED, measured.reason
    able = [one for one in measured.candidates if one.fault(limits) is None]
    if able:
        best = max(able, key=lambda one: one.qps)
        return best, best.qps, ""
    nearest = min(measured.candidates, key=lambda one: (one.beyond(limits), -one.qps))
    return None, -nearest.beyond(limits) - _SMALL, nearest.fault(limits) or ""


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those to which no other is preferred both in recall and in speed, by recall."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (-one.recall, -one.qps)):
        if not kept or one.qps > kept[-1].qps:
            kept.append(one)
    return kept[::-1]
