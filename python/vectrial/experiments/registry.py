"""The registry of experiments.

An experiment is registered by an entry point in the group `vectrial.experiments`, in Vectrial's
package or in any other: see `vectrial.util.plugins`. The measuring process gets
`reference(experiment)` and calls `resolve`, since a store's own environment has no entry points.
"""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.experiments.base import Experiment
from vectrial.model.results_schema import MetricName, metrics_with
from vectrial.util.plugins import Plugins


def _check_experiment(name: str, found: object) -> type[Experiment]:
    if not (isinstance(found, type) and issubclass(found, Experiment)):
        raise ValueError("is not a subclass of vectrial.experiments.base.Experiment")
    if found.name != name:
        raise ValueError(f"is an experiment named '{found.name}': name the entry point so, too")
    return found


#: Every registered experiment, by name.
EXPERIMENTS: Plugins[type[Experiment]] = Plugins(
    "vectrial.experiments", "experiment", _check_experiment
)


def all_metrics() -> Mapping[str, MetricName]:
    """Every metric that a run may hold: shared metrics, and each experiment's own."""
    return metrics_with(m for kind in EXPERIMENTS.working()[0].values() for m in kind.metrics)


def replacement(name: str) -> str | None:
    """The lines of a suite that measure the same as an experiment of an earlier version; None if
    there was none of this name."""
    for kind in EXPERIMENTS.working()[0].values():
        if name in kind.replaces:
            return ", ".join(filter(None, (f'experiment = "{kind.name}"', kind.replaces[name])))
    return None
