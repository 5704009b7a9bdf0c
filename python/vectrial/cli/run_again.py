"""What `vectrial run` measures again, because the machine was busy with something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from vectrial.cli.output import say
from vectrial.model.errors import UserError
from vectrial.plan.model import Plan
from vectrial.run.plan_summary import about_time
from vectrial.run.remeasure import remeasured
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


def worth_again(plan: Plan, run: RunData, console: Console) -> tuple[Plan, frozenset[str]]:
    """The part of a plan that is measured again because the machine was disturbed, and the keys of
    its trials; prints what is done."""
    found = remeasured(plan, run)
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
    part = plan.without({trial.row.key for trial in plan.trials} - found.keys)
    return replace(part, refusals=()), found.keys
