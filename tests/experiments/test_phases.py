"""A phase is told when it has ended: what is sampled until then is taken for its own."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns

import pytest
from experiment_worlds import EMBEDDED, ROWS, index_of, run, target, world
from small_experiments import Small, check_telling
from test_terms import SMALL

from vectrial.experiments.base import Experiment
from vectrial.experiments.ingest.experiment import Ingest
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.experiments.transport import Transport
from vectrial.model.phase import State
from vectrial.stores.memory import MemoryStore


#: `durability` samples nothing: the process that it looks at ends in it.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EMBEDDED if name != "durability"])
def test_nothing_is_asked_between_the_end_of_a_phase_and_its_telling(
    name: str, tmp_path: Path
) -> None:
    check_telling(name, SMALL.get(name, Small()), tmp_path)


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
