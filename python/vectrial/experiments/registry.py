"""The experiments there are.

An experiment announces itself with an entry point in the group `vectrial.experiments`, here and in
other people's packages alike: see `vectrial.util.plugins`. The measuring process gets
`reference(experiment)` and calls `resolve`, since a store's own environment has no entry points.
"""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.experiments.base import Experiment
from vectrial.model.errors import VectrialError
from vectrial.model.results_schema import METRICS, MetricName
from vectrial.util.plugins import Plugins, import_reference, reference

__all__ = ["EXPERIMENTS", "reference", "replacement", "resolve"]


def _class(found: object) -> type[Experiment]:
    if not (isinstance(found, type) and issubclass(found, Experiment)):
        raise ValueError("is not a subclass of vectrial.experiments.base.Experiment")
    return found


def _named(name: str, found: object) -> type[Experiment]:
    experiment = _class(found)
    if experiment.name != name:
        name = experiment.name
        raise ValueError(f"is an experiment named '{name}': name the entry point so, too")
    return experiment


#: Every registered experiment, by name.
EXPERIMENTS: Plugins[type[Experiment]] = Plugins("vectrial.experiments", "experiment", _named)


def all_metrics() -> Mapping[str, MetricName]:
    """Every metric that a run may hold: those that several experiments have, and each one's own."""
    own = (m for kind in EXPERIMENTS.working()[0].values() for m in kind.metrics)
    return METRICS | {metric.name: metric for metric in own}


def replacement(name: str) -> str | None:
    """The lines of a suite that measure what an experiment of an earlier version did; None where
    there was none of this name."""
    for kind in EXPERIMENTS.working()[0].values():
        if name in kind.replaces:
            return ", ".join(filter(None, (f'experiment = "{kind.name}"', kind.replaces[name])))
    return None


def resolve(where: str) -> type[Experiment]:
    """The experiment's class at `module:Class`.

    Raises:
        VectrialError: nothing can be imported from there, or it is no experiment.
    """
    try:
        return _class(import_reference(where))
    except ValueError as error:
        raise VectrialError(f"{where} {error}") from error
    except (ImportError, AttributeError, SyntaxError) as error:
        raise VectrialError(f"the experiment at {where} cannot be imported: {error}") from error
