"""A phase is told when it has ended: what is sampled until then is taken for its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest
from experiment_worlds import EMBEDDED, ROWS, index_of, run, target, world
from test_terms import SMALL, Small

from vectrial.experiments.base import Experiment
from vectrial.experiments.ingest.experiment import Ingest
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.experiments.transport import Transport
from vectrial.model.phase import Phase, State
from vectrial.model.store import Store
from vectrial.stores.memory import MemoryStore

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


#: `durability` samples nothing: the process that it looks at ends in it.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EMBEDDED if name != "durability"])
def test_nothing_is_asked_between_the_end_of_a_phase_and_its_telling(
    name: str, tmp_path: Path
) -> None:
    """What follows a phase (reading back, looking at answers, the next step) is no part of it."""
    small, calls = SMALL.get(name, Small()), list[tuple[int, str]]()
    kind = noting(small.store, calls)
    place = target(kind, index_of(kind, "flat"))
    experiment = EXPERIMENTS[name].model_validate(dict(small.params)).resolve(place.data)
    point = experiment.points(place)[-1]
    told: list[tuple[Phase, int]] = []
    with world(kind, "flat", tmp_path, type(experiment).starts_from, small.data) as context:
        for phase in experiment.run(context, point):
            told.append((phase, perf_counter_ns()))
    assert any(phase.unsampled is None for phase, _ in told)
    for phase, told_ns in told:
        if phase.unsampled is None:
            ended_ns = phase.ended_ns + phase.paused_ns
            late = [what for at, what in calls if ended_ns < at < told_ns]
            assert not late, f"asked after {phase.name} had ended, and before it was told"


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        (Ingest(probes=0), ["load", "flush", "build", "wait", "first_search"]),
        (
            Transport(operations=("put", "get"), sizes=(1.0,), clients=(1,), min_s=0.0),
            ["put", "indexed", "get"],
        ),
    ],
)
def test_a_phase_is_told_before_the_next_begins(
    asked: Experiment, order: list[str], tmp_path: Path
) -> None:
    point = asked.points(target(MemoryStore, index_of(MemoryStore, "flat"), ROWS))[-1]
    with world(MemoryStore, "flat", tmp_path, State.EMPTY) as context:
        told = {phase.name: (phase, perf_counter_ns()) for phase in asked.run(context, point)}
    for before, after in pairwise(order):
        assert told[before][1] <= told[after][0].started_ns


def test_what_is_judged_untimed_and_what_is_looked_at_beside_a_load_has_no_cost(
    tmp_path: Path,
) -> None:
    untold = {
        "anomaly": {"class", "classes", "together"},
        "time_to_searchable": {"look"},
        "durability": {"outages"},
    }
    for name, unknown in untold.items():
        small = SMALL[name]
        experiment = EXPERIMENTS[name].model_validate(dict(small.params))
        phases = run(experiment, small.store, tmp_path / name, given=small.data)
        assert {phase.name for phase in phases if phase.unsampled is not None} == unknown


def test_a_load_says_for_how_long_its_clock_stood_still(tmp_path: Path) -> None:
    before = perf_counter_ns()
    load = run(Ingest(probes=0), MemoryStore, tmp_path)[0]
    assert load.name == "load"
    assert load.paused_ns > 0, "batches are cut between inserts"
    assert before < load.started_ns < load.ended_ns + load.paused_ns < perf_counter_ns()
