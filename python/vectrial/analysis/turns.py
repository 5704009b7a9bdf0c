"""Comparison of two stores that took turns, by their slices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Slices, stable_text
from vectrial.stats import turns
from vectrial.stats.effects import Effect
from vectrial.stats.quantiles import LATENCY
from vectrial.stats.turns import Estimate, Prior
from vectrial.stats.verdict import Evidence

#: Weights of one repeat: the phases whose logarithms make its value, each with its weight.
Weights = Mapping[int, float]


@dataclass(frozen=True)
class TurnComparison:
    """B over A by their turns.

    indexes: effect for the indexes that were measured. store: effect for the stores, whichever
        index is built next; None with fewer than three loads. loads: number of loads of each in
        which both took turns. rounds: number in all loads.
    """

    indexes: Effect
    store: Effect | None
    loads: int
    rounds: int

    @property
    def effect(self) -> Effect:
        """The effect of the widest claim that can be made."""
        return self.indexes if self.store is None else self.store

    @property
    def claim(self) -> str:
        """Scope of the claim, in words."""
        if self.store is None:
            return "of these indexes"
        return f"of {self.loads} loads of each"

    def evidence(self, *, higher_is_better: bool) -> Evidence:
        """The evidence for a verdict."""
        by_round = self.store is None
        n = self.rounds if by_round else self.loads
        return Evidence(self.effect, n, higher_is_better, by_round=by_round)


def compare_points(run: RunData, a: Point, b: Point, metric: str) -> TurnComparison | None:
    """B over A of a metric; None if they did not take turns, or slices do not have the metric."""
    if not run.slices:
        return None
    repeats = run.repeats

    def weights(one: Point) -> dict[int, Weights]:
        return {repeats[p.phase_id]: {p.phase_id: 1.0} for p in one.phases}

    return compare_phases(run, weights(a), weights(b), metric)


def compare_phases(
    run: RunData, a: Mapping[int, Weights], b: Mapping[int, Weights], metric: str
) -> TurnComparison | None:
    """B over A of values read off phases, by repeat; see `compare_points`."""
    loads = []
    for repeat in sorted(a.keys() & b.keys()):
        found = _load_estimate(run.slices, a[repeat], b[repeat], metric)
        if found is not None:
            loads.append(found)
    if not loads:
        return None
    enough = len(loads) >= turns.LEAST_LOADS
    store = turns.store_effect(loads, load_variance_prior(run)) if enough else None
    return TurnComparison(
        turns.measured_loads_effect(loads), store, len(loads), sum(one.n for one in loads)
    )


def _load_estimate(
    slices: Mapping[int, Slices], a: Weights, b: Weights, metric: str
) -> Estimate | None:
    """The logarithm of B over A for one load, or None if it cannot be determined."""
    phases = [*a, *b]
    if any(phase not in slices for phase in phases):
        return None
    rounds = _common_rounds([slices[phase] for phase in phases])
    if len(rounds) < turns.LEAST_ROUNDS:
        return None
    if metric in LATENCY:
        of_a, of_b = (
            [(w, _batches(slices[phase], rounds)) for phase, w in s.items()] for s in (a, b)
        )
        return turns.log_quantile_ratio(of_a, of_b, LATENCY[metric])
    if metric != "qps":
        return None
    logs = np.zeros(len(rounds))
    own = all(slices[phase].serial for phase in phases)
    for sign, side in ((-1.0, a), (1.0, b)):
        for phase, weight in side.items():
            logs += sign * weight * _log_rates(slices[phase], rounds, own)
    return turns.estimate(logs)


def _common_rounds(arms: Sequence[Slices]) -> NDArray[np.int64]:
    """The rounds in which every arm answered at least one request."""
    rounds = arms[0].rounds[arms[0].counts > 0]
    for arm in arms[1:]:
        rounds = np.intersect1d(rounds, arm.rounds[arm.counts > 0])
    return rounds


def _log_rates(arm: Slices, rounds: NDArray[np.int64], own: bool) -> NDArray[np.float64]:
    """Logarithms of an arm's rates in these rounds. own: without its waits for a processor."""
    rates = arm.own_rates if own else arm.rates
    logs: NDArray[np.float64] = np.log(rates[np.searchsorted(arm.rounds, rounds)])
    return logs


def _batches(arm: Slices, rounds: NDArray[np.int64]) -> list[list[bytes]]:
    at = np.searchsorted(arm.rounds, rounds).tolist()
    histograms = [arm.latencies[i] for i in at]
    return [histograms[part] for part in turns.batches_of(len(rounds))]


def interpolation_weights(value: float, phases: Sequence[tuple[int, float]]) -> Weights:
    """The weights with which a value was interpolated between phases, each given with its own
    value: linear in the logarithm. A single phase has the value itself."""
    if len(phases) == 1:
        return {phases[0][0]: 1.0}
    (low, from_), (high, to) = phases
    share = 0.5 if from_ == to else math.log(value / from_) / math.log(to / from_)
    return {low: 1 - share, high: share}


def load_variance_prior(run: RunData) -> Prior:
    """The variance between loads of a pair, estimated from all builds of a run together."""
    if "load_variance_prior" not in run.memo:
        run.memo["load_variance_prior"] = _load_variance_prior(run)
    found: Prior = run.memo["load_variance_prior"]
    return found


def _load_variance_prior(run: RunData) -> Prior:
    levels = _build_levels(run)
    variances = {build: [float(np.var(x, ddof=1))] for build, x in levels.items()}
    loads = [len(x) for x in levels.values()]
    if not loads:
        return turns.NO_PRIOR
    found = turns.prior_of(variances, min(loads) - 1)
    return Prior(2 * found.variance, found.df)  # a pair has the variance of both


def _build_levels(run: RunData) -> Mapping[str, Sequence[float]]:
    """Level of each build, by load: the mean logarithm of its rates less that of all others."""
    rates: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, phase in run.phases():
        arm = run.slices.get(phase.phase_id)
        if arm is not None and phase.valid and (arm.counts > 0).all():
            build = stable_text({"series": str(trial.series), **trial.index_params})
            own = arm.own_rates if arm.serial else arm.rates
            rates[trial.repeat][build].append(float(np.log(own).mean()))
    loads = [{build: float(np.mean(x)) for build, x in one.items()} for one in rates.values()]
    builds = set.intersection(*map(set, loads)) if loads else set()
    if len(loads) < turns.LEAST_LOADS or len(builds) < turns.LEAST_LOADS:
        return {}
    others = len(builds) - 1
    sums = [sum(one[build] for build in builds) for one in loads]
    return {
        build: [
            one[build] - (total - one[build]) / others
            for one, total in zip(loads, sums, strict=True)
        ]
        for build in sorted(builds)
    }


@dataclass(frozen=True)
class RunningRatio:
    """The ratio of B to A after so many rounds, with the interval that holds at every moment at
    once. batch: the ratio of the rounds since the previous entry."""

    rounds: int
    ratio: float
    low: float
    high: float
    batch: float


def running_ratios(run: RunData, a: Point, b: Point) -> list[RunningRatio]:
    """The course of the ratio of their QPS, over all loads in their order; empty if they did not
    take turns, or for too short a time."""
    repeats = run.repeats
    of_b = {repeats[p.phase_id]: run.slices.get(p.phase_id) for p in b.phases}
    logs = []
    for phase in a.phases:
        mine, other = run.slices.get(phase.phase_id), of_b.get(repeats[phase.phase_id])
        if mine is not None and other is not None:
            rounds = _common_rounds([mine, other])
            own = mine.serial and other.serial
            logs.append(_log_rates(other, rounds, own) - _log_rates(mine, rounds, own))
    values = np.concatenate(logs) if logs else np.empty(0)
    found, before = [], 0
    for n in range(turns.BATCH_ROUNDS, len(values) + 1, turns.BATCH_ROUNDS):
        batch, before = values[before:n].mean(), n
        estimate = turns.estimate(values[:n]) if n >= turns.LEAST_ROUNDS else None
        ends = None if estimate is None else turns.anytime_interval(estimate)
        if estimate is not None and ends is not None:
            ratio, low, high, part = (math.exp(one) for one in (estimate.mean, *ends, float(batch)))
            found.append(RunningRatio(n, ratio, low, high, part))
    return found
