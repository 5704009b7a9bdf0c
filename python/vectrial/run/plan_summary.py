"""Summary of a plan, as `vectrial run --dry-run` and the pages of `vectrial serve` show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from vectrial.plan.model import Plan, PlannedTrial
from vectrial.run.remeasure import SHARE
from vectrial.servers.provide import choose_provider, recipe_of
from vectrial.util.formatting import plural
from vectrial.util.variants import full_name, set_variables


@dataclass(frozen=True)
class PlannedLoad:
    """The trials of one store, index and number of rows. trials: the experiments, each with its
    number of measurements."""

    store: str
    index: str
    dataset: str
    rows: int
    trials: str
    estimate_s: float


@dataclass(frozen=True)
class PlanSummary:
    """Summary of a plan.

    title: the suite, with the number of trials and jobs. repeats: how often each trial of a load is
        measured. servers: how each is started, and their limits. skipped: (what, reason).
    """

    title: str
    estimate: str
    repeats: int
    loads: tuple[PlannedLoad, ...]
    servers: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def trials_title(self) -> str:
        """The heading of the trials of loads."""
        return "trials" if self.repeats == 1 else f"trials, {self.repeats} times each"


#: A machine on which a run takes less than this share longer is called quiet.
_QUIET = 0.15


def summarize(plan: Plan, slowdown: float = 1.0) -> PlanSummary:
    """Summarize a plan, including the servers of this machine.

    slowdown: how many times as long work takes now (`telemetry.load.slowdown`).
    """
    loads: dict[tuple[str, str, str, int], list[PlannedTrial]] = {}
    seconds: defaultdict[tuple[str, str, str, int], float] = defaultdict(float)
    for job in plan.jobs:
        key = (job.store_label, job.index_label, job.dataset, job.rows)
        loads.setdefault(key, []).extend(job.trials)
        seconds[key] += job.estimate_s
    counts = {
        load: Counter(trial.row.experiment for trial in trials) for load, trials in loads.items()
    }
    # A resumed run may lack some repeats of a trial only.
    even = not any(n % plan.suite.repeats for count in counts.values() for n in count.values())
    repeats = plan.suite.repeats if even else 1
    return PlanSummary(
        title=f"{plan.suite.name}: {plural(len(plan.trials), 'trial')} in"
        f" {plural(len(plan.jobs), 'job')}",
        estimate=f"{_time(plan, slowdown)} of measuring, after datasets are here; up to"
        f" {SHARE:.0%} more if the machine is disturbed",
        repeats=repeats,
        loads=tuple(
            PlannedLoad(*load, _trials(counts[load], repeats), seconds[load]) for load in loads
        ),
        servers=tuple(_servers(plan)),
        skipped=plan.skipped,
    )


def _trials(counts: Counter[str], repeats: int) -> str:
    return ", ".join(
        name if count == repeats else f"{name} ×{count // repeats}"
        for name, count in counts.items()
    )


def _time(plan: Plan, slowdown: float) -> str:
    """The time of a plan on this machine as it is, and on a quiet one if that is another."""
    quiet_s, busy_s = plan.estimate_s, plan.busy_estimate_s(slowdown)
    if busy_s <= (1 + _QUIET) * quiet_s:
        return f"about {about_time(quiet_s)}"
    now, quiet = about_time(busy_s), about_time(quiet_s)
    return f"about {now} as busy as this machine is now, {quiet} if it were quiet,"


def about_time(seconds: float) -> str:
    """A time for display: in seconds below two minutes, else in minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _servers(plan: Plan) -> Iterator[str]:
    """The provider of each store's server, and the reason for choosing it."""
    servers = False
    for (store, variant), provider in plan.servers.items():
        recipe = recipe_of(store)
        if recipe is None:
            continue
        servers = True
        with set_variables(variant):
            choice = choose_provider(recipe, provider)
        why = choice.why
        if choice.available.reason:
            lacks = "not available here: " if choice.available.works is False else ""
            why = "; ".join(filter(None, (why, f"{lacks}{choice.available.reason}")))
        yield f"server of {full_name(store.name, variant)}: {choice.provider}: {why}"
    if servers and (limits := plan.suite.placement.limits):
        yield f"each server may use: {limits}"
