"""Trials of a run that are measured again, because the machine was busy with something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vectrial.plan.model import Job, Plan

if TYPE_CHECKING:
    from vectrial.analysis.run_data import RunData
    from vectrial.analysis.trial import Trial

#: Share of a run's time that is spent on it.
SHARE = 0.15
#: Seconds of a job beside its loads and phases: a process starts, and a server may.
JOB_S = 3.0


@dataclass(frozen=True)
class RemeasurePlan:
    """Keys of the trials to measure again, the seconds that this takes, and the number of disturbed
    trials for which there is no time."""

    keys: frozenset[str]
    seconds: float
    left: int


def plan_remeasurement(plan: Plan, run: RunData, share: float = SHARE) -> RemeasurePlan:
    """The disturbed trials of a run to measure again within a share of its time.

    Jobs are taken as a whole, because each loads its data anew; those with the lowest cost per
    trial come first. plan: the run's whole plan.
    """
    # Imported here: the readers of results take a while.
    from vectrial.analysis.interference import disturbed_keys

    trials = {trial.key: trial for trial in run.trials}
    disturbed = disturbed_keys(run)
    budget_s, offers = 0.0, []
    for job in plan.jobs:
        own = [trials[one.row.key] for one in job.trials if one.row.key in trials]
        budget_s += share * _cost_s(job, own)
        hit = [trial for trial in own if trial.key in disturbed]
        if hit:
            offers.append((_cost_s(job, hit), hit))
    keys: set[str] = set()
    spent_s = 0.0
    for cost_s, hit in sorted(offers, key=lambda offer: offer[0] / len(offer[1])):
        if spent_s + cost_s <= budget_s:
            spent_s += cost_s
            keys |= {trial.key for trial in hit}
    return RemeasurePlan(frozenset(keys), spent_s, sum(len(hit) for _, hit in offers) - len(keys))


def _cost_s(job: Job, trials: list[Trial]) -> float:
    """Seconds that these trials of a job took, including one load of its data."""
    loaded = job.existing is None
    load_s = max((t.load.get("ready_s", 0.0) for t in trials), default=0.0) if loaded else 0.0
    return JOB_S + load_s + sum(trial.span_s for trial in trials)
