"""`vectrial run --until-decided`: more loads of every store, until their order is decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from vectrial.cli.output import say
from vectrial.cli.run_suite import SuiteSource
from vectrial.model.errors import UserError
from vectrial.plan.model import Plan
from vectrial.run.prepare import plan_of
from vectrial.run.runner import Outcome
from vectrial.stats.verdict import THRESHOLD
from vectrial.util import formatting


def until_decided(
    source: SuiteSource,
    folder: Path,
    minutes: float,
    console: Console,
    measure: Callable[[Plan, SuiteSource], Outcome],
) -> Outcome:
    """Measurer one repeat after the other until each store's place is decided, or the time is over;
    report after each repeat what is decided, what is open, and how long that will take.

    The looks share one level: see `stats.turns.level_of_look`.

    Args:
        measure: measures the part of a plan that is not yet measured.

    Raises:
        UserError: the suite has one store.
    """
    # Imported here: the readers of results take a while.
    from vectrial.analysis.run_data import load
    from vectrial.analysis.standings import all_decided, standings

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
        found = standings(load(folder, own=True), THRESHOLD, repeats)
        for standing in found:
            say(console, f"{standing.sweep.facet.title}: {standing.sentence}")
        if not found or not outcome.measured:
            say(console, "nothing was measured that could be decided")
            return outcome
        if all_decided(found):
            say(console, f"decided after {formatting.seconds(spent_s)}")
            return outcome
        load_s = spent_s / repeats
        more = max(standing.more for standing in found)
        likely = f", likely decided in {formatting.seconds(more * load_s)}" if more else ""
        if spent_s + load_s > minutes * 60:
            say(console, f"the time is over{likely}: --minutes {minutes * 2:g}")
            return outcome
        say(console, f"{formatting.plural(repeats, 'load')} of each{likely}")
