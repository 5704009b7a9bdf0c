"""Experiments made short, and what holds of the phases of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from experiment_worlds import index_of, run, target, world

from vectrial.compare.groups import terms_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.dataset import Dataset
from vectrial.model.phase import Phase, Role
from vectrial.model.store import Store
from vectrial.stores.memory import MemoryStore

#: Settings of experiments' own, and what they say of a phase: equal or not, it may be compared.
SETTINGS = {"recall_parameter", "known_by", "verdict"}
QUICK = {"min_s": 0.0, "warmup_queries": 0}
#: What is asked of a store, and takes its time.
ASKED = (
    "insert", "upsert", "delete", "get", "count", "scan", "searcher", "find", "flush", "build",
    "wait_indexed", "create", "drop",
)  # fmt: skip


def noting(kind: type[Store], calls: list[tuple[int, str]]) -> type[Store]:
    """The same store, which notes what it is asked, and when."""

    def noted(name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        @functools.wraps(original)
        def method(self: Store, *args: Any, **named: Any) -> Any:
            calls.append((perf_counter_ns(), name))
            return original(self, *args, **named)

        return method

    return type(kind.__name__, (kind,), {name: noted(name) for name in ASKED})


@dataclass(frozen=True)
class Small:
    """An experiment made short, and what it is asked of."""

    params: Mapping[str, Any] = field(default_factory=dict)
    store: type[Store] = MemoryStore
    data: Dataset | None = None


def check_terms(name: str, small: Small, folder: Path) -> None:
    """What it says of its phases is known to `compare`."""
    experiment = EXPERIMENTS[name].model_validate(dict(small.params))
    phases = run(experiment, small.store, folder, given=small.data)
    assert phases
    # What is a step on the way to a result is compared with nothing.
    told = {key for phase in phases if phase.role is not Role.STEP for key in phase.params}
    unknown = told - terms_of(name).keys() - SETTINGS
    assert not unknown, "declare it in the experiment's `terms`, or say here that it is a setting"


def check_telling(name: str, small: Small, folder: Path) -> None:
    """What follows a phase (reading back, looking at answers, the next step) is no part of it."""
    calls = list[tuple[int, str]]()
    kind = noting(small.store, calls)
    place = target(kind, index_of(kind, "flat"))
    experiment = EXPERIMENTS[name].model_validate(dict(small.params)).resolve(place.data)
    point = experiment.points(place)[-1]
    told: list[tuple[Phase, int]] = []
    with world(kind, "flat", folder, type(experiment).starts_from, small.data) as context:
        for phase in experiment.run(context, point):
            told.append((phase, perf_counter_ns()))
    assert any(phase.unsampled is None for phase, _ in told)
    for phase, told_ns in told:
        if phase.unsampled is None:
            ended_ns = phase.ended_ns + phase.paused_ns
            late = [what for at, what in calls if ended_ns < at < told_ns]
            assert not late, f"asked after {phase.name} had ended, and before it was told"
