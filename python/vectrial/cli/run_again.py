"""Repeated measurements of `vectrial run`: trials that a busy machine disturbed, and more loads of
each store until their order is decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from vectrial.cli.output import say
from vectrial.cli.run_suite import SuiteSource
from vectrial.model.errors import UserError
from vectrial.plan.model import Plan
from vectrial.run.plan_summary import about_time
from vectrial.run.prepare import plan_of
from vectrial.run.remeasure import plan_remeasurement
from vectrial.run.runner import Outcome
from vectrial.stats.verdict import THRESHOLD
from vectrial.util import formatting
from vectrial.util.formatting import plural

if TYPE_CHECKING:
    from vectrial.analysis.run_data import RunData


def disturbed_trials(resume: Path | None, plan: Plan, console: Console) -> frozenset[str]:
    """Keys of the planned trials that a busy machine disturbed in a run; prints how many there are.

    Raises:
        UserError: there is no run to resume.
    """
    if resume is None:
        raise UserError(
            "there is no run whose trials could be measured again",
            where="--remeasure-disturbed",
            remedy="name it with --resume",
        )
    # Imported here: the readers of results take a while.
    from vectrial.analysis.interference import disturbed_keys
    from vectrial.analysis.run_data import load

    keys = disturbed_keys(load(resume)) & {trial.row.key for trial in plan.trials}
    say(console, f"{plural(len(keys), 'trial')} measured again: the machine was busy with others")
    return keys


def plan_to_remeasure(plan: Plan, run: RunData, console: Console) -> tuple[Plan, frozenset[str]]:
    """The part of a plan that is measured again because the machine was disturbed, and the keys of
    its trials; prints what is done."""
    found = plan_remeasurement(plan, run)
    left = f"; there is no time for {found.left:,} more" if found.left else ""
    if found.keys:
        say(
            console,
            f"{plural(len(found.keys), 'trial')} met other work on the machine: measured again,"
            f" about {about_time(found.seconds)} (--no-remeasure leaves them){left}",
        )
    elif found.left:
        say(
            console,
            f"{plural(found.left, 'trial')} met other work on the machine:"
            f" vectrial run --resume {run.folder} --remeasure-disturbed measures them again",
        )
    part = plan.without_trials({trial.row.key for trial in plan.trials} - found.keys)
    return replace(part, refusals=()), found.keys


def measure_until_decided(
    source: SuiteSource,
    folder: Path,
    minutes: float,
    console: Console,
    measure: Callable[[Plan, SuiteSource], Outcome],
) -> Outcome:
    """Measure one repeat after the other until each store's place is decided, or the time is over;
    report after each repeat what is decided, what is open, and how long that will take.

    The looks share one level: see `stats.turns.level_of_look`.

    Args:
        measure: measures the part of a plan that is not yet measured.

    Raises:
        UserError: the suite has one store.
    """
    # Imported here: the readers of results take a while.
    from vectrial.analysis.run_data import load
    from vectrial.analysis.standings import are_all_decided, standings

    if len(source.suite.stores) < 2:
        raise UserError(
            "there is one store, and nothing to decide",
            where="--until-decided",
            remedy="name two stores in the suite, or two indexes of one",
        )
    began, repeats = time.monotonic(), 0
    while True:
        repeats += 1
        one = source.restricted((), repeats)
        outcome = measure(plan_of(one.suite, one.where), one)
        spent_s = time.monotonic() - began
        found = standings(load(folder, is_own_run=True), THRESHOLD, repeats)
        for standing in found:
            say(console, f"{standing.sweep.facet.title}: {standing.sentence}")
        if not found or not outcome.measured:
            say(console, "nothing was measured that could be decided")
            return outcome
        if are_all_decided(found):
            say(console, f"decided after {formatting.seconds(spent_s)}")
            return outcome
        load_s = spent_s / repeats
        more = max(standing.loads_needed for standing in found)
        likely = f", likely decided in {formatting.seconds(more * load_s)}" if more else ""
        if spent_s + load_s > minutes * 60:
            say(console, f"the time is over{likely}: --minutes {minutes * 2:g}")
            return outcome
        say(console, f"{formatting.plural(repeats, 'load')} of each{likely}")
