"""The memory that the systems of a report had, as a limit of the servers here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from vectrial.analysis.run_data import RunData
from vectrial.model.errors import UserError
from vectrial.model.placement import Limits, Placement, Provider
from vectrial.plan.model import Plan
from vectrial.servers.limits import why_no_limits
from vectrial.servers.provide import choose_provider, recipe_of
from vectrial.util.cgroups import ROOT
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Reproduction

OPTION = "--memory-limit"
_WITHOUT = f"leave {OPTION} out: the servers then have all the memory of this machine"


def placement_of(report: Reproduction, *, limited: bool) -> Placement:
    """The placement of a reproduction's suites.

    Raises:
        UserError: a limit is asked for, and the report does not say what its systems had.
    """
    if not limited:
        return Placement()
    if not report.server_memory:
        raise UserError(
            f"{report.name} does not say how much memory its systems had",
            where=OPTION,
            remedy=f"leave {OPTION} out",
        )
    return Placement(server_memory=report.server_memory)


def check_memory(plan: Plan, total_bytes: int | None = None, root: Path = ROOT) -> None:
    """Check that the memory limit of a plan's servers can be set here and is effective.

    Args:
        total_bytes: memory of this machine; measured unless given.
        root: where control groups are mounted.

    Raises:
        UserError: this machine has less memory than the limit, so that it would not be reached; or
            it has no control groups for the servers that it starts itself.
    """
    limit = plan.suite.placement.limits.memory_bytes
    if limit is None:
        return
    total = psutil.virtual_memory().total if total_bytes is None else total_bytes
    if total < limit:
        raise UserError(
            f"this machine has {total / 2**30:.1f} GiB of memory, less than the"
            f" {limit / 2**30:.1f} GiB that the report's systems had: the limit would not bind",
            where=OPTION,
            remedy=_WITHOUT,
        )
    if Provider.LOCAL not in _providers(plan):
        return  # a container engine sets limits itself; a server elsewhere has its own
    if why := why_no_limits(Limits(memory_bytes=limit), root):
        raise UserError(
            f"no memory limit can be set here: {why}",
            where=OPTION,
            remedy=f"run as a user who may make control groups, or {_WITHOUT}",
        )


def _providers(plan: Plan) -> set[Provider]:
    recipes = ((recipe_of(store), wanted) for (store, _), wanted in plan.servers.items())
    # The suites of reports have no variants.
    return {
        choose_provider(recipe, wanted).provider for recipe, wanted in recipes if recipe is not None
    }


def memory_in_words(
    report: Reproduction, measured: Mapping[str, MeasuredPart], *, limited: bool
) -> str:
    """The memory limits of the servers here and of the report's, in words; empty if the report does
    not state any. limited: whether `--memory-limit` was given."""
    if not report.server_memory:
        return ""
    if not limited:
        return f"not limited here; {report.server_memory} there ({OPTION} sets it)"
    sentences = dict.fromkeys(said for one in measured.values() for said in _limits(one.run))
    of_each = f"; {'; '.join(sentences)}" if sentences else ""
    return f"{report.server_memory}, as the report's systems had ({OPTION}){of_each}"


def _limits(run: RunData) -> Iterator[str]:
    """A sentence for each store of a run for which the limit was not set."""
    for trial in run.trials:
        if not trial.phases:
            continue
        if trial.server is None:
            yield f"{trial.series.store} runs in the measuring process, which has no limit"
            continue
        said = str(trial.server.get("limits") or "unknown")
        if ": applied by" not in said:
            yield f"{trial.series.store}: {said}"
