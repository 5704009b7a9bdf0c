"""The search over builds, on a simulated index whose best parameters are known."""

from __future__ import annotations

import math
import statistics

import pytest

from vectrial.model.capabilities import IndexKind, Params
from vectrial.questions.bench import run_search
from vectrial.questions.builds import (
    Build,
    BuildMeasurement,
    BuildRequest,
    Candidate,
    TriedBuild,
    TuneLimits,
    best_of,
    pareto_front,
    search,
)
from vectrial.questions.space import Choices, IntegerRange, defaults, knobs
from vectrial.stores import registry

KNOBS = (IntegerRange("m", 8, 64), IntegerRange("ef_construction", 40, 512))
LADDER = (10, 20, 40, 80, 160, 320)


class Simulated:
    """Recall rises with every parameter, speed falls with m and ef_search: the least m that gives
    the recall at a small ef_search is the best. Rows only make it slower."""

    def __init__(self) -> None:
        self.asked: list[tuple[Build, int]] = []

    def __call__(self, attempt: BuildRequest) -> BuildMeasurement:
        build, rows = attempt.build, attempt.rows
        self.asked.append((build, rows))
        m, ef_construction = build.params["m"], build.params["ef_construction"]
        made = []
        for ef in LADDER:
            effort = math.log(m) * math.log(ef_construction) * math.log(ef)
            recall = 1 - math.exp(-effort / 20)
            qps = 1e7 / (ef + 5) / m / math.log(rows)
            made.append(Candidate(build, {"ef_search": ef}, recall, qps, 1e9 / qps, 1e6 * m))
        return BuildMeasurement(made)


def run(
    simulated: Simulated, limits: TuneLimits, budget: int = 25, steps: tuple[int, ...] = (10_000,)
) -> list[TriedBuild]:
    first = {"hnsw": {"m": 16, "ef_construction": 200}}
    asking = search({"hnsw": KNOBS}, first, limits, steps=steps, budget=budget, seed=7)
    return run_search(asking, simulated)


def test_the_choice_keeps_the_limits_and_beats_the_stores_own() -> None:
    limits = TuneLimits(recall=0.95)
    tried = run(Simulated(), limits)
    assert len(tried) == 25
    assert tried[0].build.params == {"m": 16, "ef_construction": 200}, "first its own parameters"
    best = max((one.best for one in tried if one.best), key=lambda one: one.qps)
    assert best.recall >= 0.95
    assert tried[0].best is not None
    assert best.qps > 1.1 * tried[0].best.qps
    every = [candidate for one in tried for candidate in one.candidates]
    assert best_of(BuildMeasurement(every), limits)[0] == best


def test_the_same_seed_tries_the_same() -> None:
    first, second = (run(Simulated(), TuneLimits(0.9), budget=10) for _ in range(2))
    assert [one.build for one in first] == [one.build for one in second]


def test_every_limit_is_kept() -> None:
    limits = TuneLimits(recall=0.9, p99_us=5e6, memory_bytes=20e6)
    kept = [one.best for one in run(Simulated(), limits) if one.best]
    assert kept
    for one in kept:
        assert one.recall >= 0.9
        assert one.p99_us <= 5e6
        assert one.memory_bytes is not None
        assert one.memory_bytes <= 20e6
    tight = run(Simulated(), TuneLimits(recall=0.9, memory_bytes=1e6), budget=5)
    assert all(one.best is None and "memory" in one.reason for one in tight)
    unknown = Candidate(Build("hnsw", {}), {}, 1.0, 1.0, 1.0, None)
    assert unknown.fault(TuneLimits(0.9, memory_bytes=1.0)) == "its memory is not known"


def test_beyond_its_limits_a_search_is_led_back_to_them() -> None:
    """From the greatest m on, of which all but the least take too much memory."""
    first = {"hnsw": {"m": 64, "ef_construction": 200}}
    limits = TuneLimits(recall=0.5, memory_bytes=9e6)
    asking = search({"hnsw": KNOBS}, first, limits, steps=(10_000,), budget=20, seed=2)
    tried = run_search(asking, Simulated())
    assert tried[0].best is None
    assert any(one.best for one in tried), "some build has m of 9 or less"
    build = Build("hnsw", {})
    near = Candidate(build, {}, 0.95, 100.0, 1.0, 210 * 2**20)
    far = Candidate(build, {}, 0.999, 100.0, 1.0, 900 * 2**20)
    limits = TuneLimits(recall=0.9, memory_bytes=200 * 2**20)
    values = [best_of(BuildMeasurement([one]), limits)[1] for one in (near, far)]
    assert 0 > values[0] > values[1] > best_of(BuildMeasurement([]), limits)[1]
    assert best_of(BuildMeasurement([near, far]), limits)[2] == "memory 210 MiB"


@pytest.mark.parametrize(
    ("limits", "beyond"),
    [
        (TuneLimits(0.9), 0.0),
        (TuneLimits(1.0), 0.05),
        (TuneLimits(0.9, p99_us=1000.0), 0.25),
        (TuneLimits(0.9, p99_us=4000.0, memory_bytes=25.0), 0.25),
        (TuneLimits(1.0, p99_us=1000.0, memory_bytes=100.0), (0.05 + 0.5) / 3),
    ],
)
def test_how_far_beyond_the_limits(limits: TuneLimits, beyond: float) -> None:
    one = Candidate(Build("hnsw", {}), {}, 0.95, 1.0, 2000.0, 100.0)
    assert one.distance_from_limits(limits) == pytest.approx(beyond)
    assert (one.distance_from_limits(limits) == 0) == (one.fault(limits) is None)
    unknown = Candidate(Build("hnsw", {}), {}, 0.95, 1.0, 2000.0, None)
    assert unknown.distance_from_limits(TuneLimits(0.9, memory_bytes=1.0)) == 0.5


def test_what_a_store_settles_itself_is_left_to_it_first() -> None:
    asked: list[tuple[Build, int]] = []

    def evaluate(attempt: BuildRequest) -> BuildMeasurement:
        asked.append((attempt.build, attempt.rows))
        qps = 10.0 * attempt.rows
        return BuildMeasurement([Candidate(attempt.build, {"nprobe": 4}, 0.99, qps, 1.0, None)])

    knobs_of = {"ivf": (IntegerRange("nlist", 16, 64), IntegerRange("nbits", 4, 8)), "hnsw": KNOBS}
    first = {"ivf": {"nbits": 8}, "hnsw": {"m": 16, "ef_construction": 200}}
    limits = TuneLimits(0.5)
    asking = search(knobs_of, first, limits, steps=(100, 1000), budget=4, seed=1)
    tried = run_search(asking, evaluate)
    assert asked[0] == (Build("ivf", {"nbits": 8}), 1000), "whole, and nlist is not drawn"
    assert asked[1] == (Build("hnsw", {"m": 16, "ef_construction": 200}), 100)
    assert [one.number for one in tried] == [1, 2, 3, 4]
    asking = search(knobs_of, first, limits, steps=(1000,), budget=1, seed=1)
    alone = run_search(asking, evaluate)
    assert [one.build for one in alone] == [Build("ivf", {"nbits": 8})]


def test_a_build_that_is_worse_on_a_share_of_the_rows_is_left() -> None:
    simulated = Simulated()
    tried = run(simulated, TuneLimits(0.95), steps=(1000, 10_000))
    pruned = [one for one in tried if one.state == "pruned"]
    assert pruned
    whole = {id(build) for build, rows in simulated.asked if rows == 10_000}
    assert all(id(one.build) not in whole for one in pruned)
    before: list[float] = []
    for one in tried:
        on_a_share = best_of(Simulated()(BuildRequest(one.build, 1000)), TuneLimits(0.95))[1]
        if one.state == "pruned":
            assert one.value == on_a_share < statistics.median(before)
        elif one.state == "complete":
            before.append(on_a_share)


def test_no_build_is_measured_twice() -> None:
    simulated = Simulated()
    first = {"hnsw": {"m": 2}}
    kinds = {"hnsw": (Choices("m", (2, 4)),)}
    asking = search(kinds, first, TuneLimits(0.5), steps=(100,), budget=6, seed=1)

    def whole(attempt: BuildRequest) -> BuildMeasurement:
        params = {**attempt.build.params, "ef_construction": 50}
        return simulated(BuildRequest(Build("hnsw", params), attempt.rows))

    tried = run_search(asking, whole)
    assert len(simulated.asked) <= 2
    assert {one.state for one in tried} == {"complete", "again"}


def test_a_build_that_fails_is_told_and_the_search_goes_on() -> None:
    asking = search({"hnsw": KNOBS}, {}, TuneLimits(0.9), steps=(100,), budget=3, seed=1)
    tried = run_search(asking, lambda _: BuildMeasurement([], "it crashed"))
    assert [(one.state, one.reason, one.best) for one in tried] == [
        ("failed", "it crashed", None)
    ] * 3


def test_the_front_has_what_nothing_beats() -> None:
    build = Build("hnsw", {})
    made = [
        Candidate(build, {"ef_search": n}, recall, qps, 1.0, None)
        for n, (recall, qps) in enumerate(
            [(0.9, 100), (0.95, 50), (0.94, 40), (0.99, 50), (0.8, 90)]
        )
    ]
    assert [(one.recall, one.qps) for one in pareto_front(made)] == [(0.9, 100), (0.99, 50)]


@pytest.mark.parametrize("name", registry.names())
def test_what_is_turned_is_what_the_stores_take(name: str) -> None:
    for label, kind in registry.load(name).capabilities.indexes.items():
        turned = knobs(kind, 50_000, 96)
        if "ef_construction" in kind.build.model_fields:
            assert {"m", "ef_construction"} <= {knob.name for knob in turned}, label
        for end in (0, -1):
            values = {
                knob.name: knob.values[end]
                if isinstance(knob, Choices)
                else (knob.low, knob.high)[end]
                for knob in turned
            }
            kind.build.model_validate(values)
        kind.build.model_validate(defaults(kind, turned))


def test_a_declared_range_goes_before_the_usual_one() -> None:
    class Own(Params):
        m: int = 16

    assert knobs(IndexKind(build=Own), 1000, 8) == (IntegerRange("m", 8, 64),)
    assert knobs(IndexKind(build=Own, tuning_ranges={"m": (4, 6)}), 1000, 8) == (
        IntegerRange("m", 4, 6),
    )
