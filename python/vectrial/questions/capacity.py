"""The highest QPS that a store sustains with p99, recall and errors within limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf

from vectrial.analysis import capacity as capacities
from vectrial.analysis.capacity import CapacityStep
from vectrial.analysis.run_data import RunData, load
from vectrial.analysis.trial import Trial
from vectrial.model.errors import UserError
from vectrial.questions.bench import DATASET, Bench, index_of, question, suite_of
from vectrial.run.prepare import plan_of
from vectrial.stores import registry
from vectrial.workload.record import ERROR_SHARE


@dataclass(frozen=True)
class CapacityAnswer:
    """The highest rate of each repeat, and the run that holds every step.

    folder: the run folder. trials: one per repeat.
    """

    folder: Path
    run: RunData
    trials: tuple[Trial, ...]

    @property
    def qps(self) -> tuple[float | None, ...]:
        """The confirmed rate of each repeat in searches per second; None if none was confirmed. If
        the client was the limit, the store may sustain more: see `sentences`."""
        return tuple(confirmed_qps(trial) for trial in self.trials)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer of each repeat in words, or the reason why there is none."""
        return tuple(capacities.sentence(trial) for trial in self.trials)

    @property
    def steps(self) -> tuple[tuple[CapacityStep, ...], ...]:
        """Every rate that was tried, by repeat, in order."""
        return tuple(tuple(capacities.curve(trial)) for trial in self.trials)

    @property
    def is_confirmed(self) -> bool:
        """True if a rate was confirmed in some repeat."""
        return any(
            trial.status == "ok" and rate is not None
            for trial, rate in zip(self.trials, self.qps, strict=True)
        )


@question
def capacity(
    store: str,
    *,
    dataset: str = DATASET,
    rows: int | None = None,
    p99_ms: float = 20.0,
    recall: float = 0.95,
    errors: float = ERROR_SHARE,
    index: str | None = None,
    params: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    lane: str | None = None,
    k: int = 10,
    seconds: float = 4.0,
    confirm_seconds: float = 10.0,
    resolution: float = 0.05,
    max_rate: float | None = None,
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1,
    bench: InstanceOf[Bench] | None = None,
) -> CapacityAnswer:
    """Find the highest QPS that a store sustains within limits, as `vectrial capacity` does.

    Args:
        store: name of a store. rows: the first of the dataset; all unless given.
        p99_ms: limit on p99 latency in milliseconds, from when a request was due. recall: least
            mean recall. errors: greatest share of failed requests.
        index: kind of index; by default the first that trades recall for speed. params: its build
            parameters. search: search parameters that are fixed; the one that trades speed for
            recall is found unless it is among them.
        lane: "native", "sdk" or "embedded"; by default the store's first. k: neighbours per query.
        seconds, confirm_seconds: duration of a step while searching, and of one that confirms.
        resolution: the search ends when the highest rate that holds and the lowest that does not
            are this close, as a share. max_rate: no higher one is tried.
        bench: where and how to measure.

    Raises:
        UserError: an argument is wrong, or the store does not support it; nothing is measured.
    """
    bench = bench or Bench()
    kind = registry.load(store)
    experiment = {
        "experiment": "capacity",
        "p99_ms": p99_ms,
        "recall": recall,
        "errors": errors,
        "search": dict(search or {}),
        "duration_s": seconds,
        "confirm_s": confirm_seconds,
        "resolution": resolution,
        **({} if max_rate is None else {"most_rate": max_rate}),
    }
    suite = suite_of(
        "capacity",
        kind,
        dataset=dataset,
        rows=rows,
        indexes=[(index_of(kind, index), params or {})],
        lane=lane,
        k=k,
        repeats=repeats,
        experiments=[experiment],
    )
    plan = plan_of(suite, suite.name)
    if not plan.jobs:
        raise UserError("; ".join(dict.fromkeys(refusal.reason for refusal in plan.refusals)))
    folder = bench.new_folder(suite)
    bench.run(plan, folder)
    run = load(folder)
    return CapacityAnswer(folder, run, tuple(capacities.trials(run)))


def confirmed_qps(trial: Trial) -> float | None:
    """The rate that a trial confirmed; None if it confirmed none."""
    phase = capacities.answer(trial)
    return None if phase is None else capacities.confirmed_rate(phase)
