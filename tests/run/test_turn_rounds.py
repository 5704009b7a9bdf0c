"""Rounds of turns, with processes that answer as they are told to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.phase import COLDER, PARTS, SLICE_S, Slice, Turn, TurnTime
from vectrial.run import slice_lengths, turns
from vectrial.run.turns import Rounds, TurnGroup, TurnJob, WaitingJob, orders
from vectrial.worker.messages import Progress, TurnResult


class Silent:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.told: list[Progress] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)


def watcher() -> Any:
    return Silent()


@dataclass
class Answering:
    """A measuring process. rate: of answers a second. cold_s: it has half of that rate at the start
    of each turn, and what is lost falls by e in so long. dies_in: a round in which it ends;
    breaks_in: in which its load breaks down."""

    rate: float = 10_000.0
    cold_s: float = 0.0
    dies_in: int | None = None
    breaks_in: int | None = None
    taken: list[tuple[str, Turn]] = field(default_factory=list)

    def turn(self, key: str, turn: Turn) -> TurnResult | None:
        self.taken.append((key, turn))
        if turn.round == self.dies_in:
            return None
        if turn.round == self.breaks_in:
            return TurnResult(key, None, "RuntimeError: no")
        edges_s = np.linspace(0, turn.length_ns / 1e9, PARTS + 1)
        if turn.round < 0:
            parts = tuple(
                self.answers(low, high) / (high - low) for low, high in pairwise(edges_s.tolist())
            )
            length_s = turn.length_ns / 1e9
            count = round(self.answers(0.0, length_s))
            return TurnResult(key, Slice(turn, 0, length_s, count, 0, b"", 0.0, 0, parts=parts))
        head_s, end_s = turn.head_ns / 1e9, turn.length_ns / 1e9
        head, count = round(self.answers(0.0, head_s)), round(self.answers(head_s, end_s))
        return TurnResult(key, Slice(turn, 0, end_s - head_s, count, 0, b"", head_s, head))

    def answers(self, from_s: float, to_s: float) -> float:
        """Between two instants of a turn."""
        if not self.cold_s:
            return self.rate * (to_s - from_s)
        lost_s = math.exp(-from_s / self.cold_s) - math.exp(-to_s / self.cold_s)
        return self.rate * (to_s - from_s - 0.5 * self.cold_s * lost_s)

    @property
    def measured(self) -> list[Turn]:
        return [turn for _, turn in self.taken if turn.round >= 0]


def rounds(*processes: Answering, seconds: float = 5.0) -> None:
    contenders = [
        WaitingJob(str(at), process, {f"trial-{at}": TurnTime(seconds)})
        for at, process in enumerate(processes)
    ]
    Rounds(contenders, watcher(), TurnGroup(watcher())).run()


@given(st.integers(1, 12), st.integers(0, 1000))
def test_every_load_has_every_place_once(count: int, seed: int) -> None:
    found = orders(count, np.random.default_rng(seed))
    for _ in range(3):
        some = [next(found) for _ in range(count)]
        assert all(sorted(order) == list(range(count)) for order in some)
        for place in range(count):
            assert len({order[place] for order in some}) == count


@given(st.integers(2, 12), st.integers(0, 1000))
def test_every_load_follows_every_other_as_often(count: int, seed: int) -> None:
    found = orders(count, np.random.default_rng(seed))
    some = [next(found) for _ in range(count * (1 + count % 2))]
    follows = Counter(pair for order in some for pair in pairwise(order))
    assert set(follows) == {(a, b) for a in range(count) for b in range(count) if a != b}
    assert len(set(follows.values())) == 1


def body_s(turn: Turn) -> float:
    return (turn.length_ns - turn.head_ns) / 1e9


def test_each_round_has_a_turn_of_every_load() -> None:
    processes = [Answering() for _ in range(3)]
    rounds(*processes)
    counts = [len(process.measured) for process in processes]
    assert counts == [round(5.0 / SLICE_S * 0.9)] * 3  # its head takes a tenth of each slice
    for process in processes:
        assert [turn.round for turn in process.measured] == list(range(counts[0]))
        places = Counter(turn.place for turn in process.measured)
        assert max(places.values()) - min(places.values()) <= 3


def test_slices_of_slow_stores_are_longer_as_far_as_there_is_time() -> None:
    fast, slow, slowest = Answering(10_000), Answering(2_500), Answering(20)
    rounds(fast, slow, slowest, seconds=10.0)
    lengths = [body_s(process.measured[0]) for process in (fast, slow, slowest)]
    assert lengths[0] == pytest.approx(SLICE_S)
    assert lengths[1] == pytest.approx(slice_lengths.REQUESTS / 2_500, rel=0.02)
    assert lengths[2] == pytest.approx(10.0 / slice_lengths.ROUNDS)


def test_all_rounds_take_the_time_of_all_loads() -> None:
    processes = [Answering(10_000), Answering(200), Answering(10_000, cold_s=0.1)]
    rounds(*processes, seconds=10.0)
    lengths = [turn.length_ns / 1e9 for process in processes for turn in process.measured]
    assert sum(lengths) == pytest.approx(30.0, rel=0.05)


@given(st.floats(0, 0.05), st.floats(500, 50_000))
def test_what_counts_of_a_slice_is_as_fast_as_its_end(cold_s: float, rate: float) -> None:
    cold = Answering(rate, cold_s=cold_s)
    rounds(cold, seconds=20.0)
    turn = cold.measured[0]
    head_s, length_s = turn.head_ns / 1e9, turn.length_ns / 1e9
    body = cold.answers(head_s, length_s) / (length_s - head_s)
    assert body >= rate * (1 - COLDER - 0.005)
    assert body_s(turn) >= slice_lengths._BODY * head_s * 0.999 or length_s >= 1.0


def test_as_little_as_possible_is_left_out() -> None:
    warm, cold = Answering(), Answering(cold_s=0.005)
    rounds(warm, cold)
    assert warm.measured[0].head_ns / 1e9 == pytest.approx(SLICE_S / 9)
    assert cold.measured[0].head_ns / 1e9 == pytest.approx(2 * SLICE_S / 9)


def test_the_length_of_slices_is_found_once_for_all_repeats() -> None:
    together = TurnGroup(watcher())
    for repeat in range(2):
        process = Answering(cold_s=0.008)
        key = f"trial-{repeat}"
        one = WaitingJob("a", process, {key: TurnTime(5.0)}, {key: "the same"})
        Rounds([one], watcher(), together).run()
        tried = [turn for _, turn in process.taken if turn.round < 0]
        assert len(tried) == (1 if repeat else turns._TRIALS)
        assert process.measured[0].head_ns == pytest.approx(22.2e6, rel=0.01)


def test_a_store_that_answers_less_than_once_in_a_part_gets_longer_slices() -> None:
    slow = Answering(rate=0.0)
    rounds(slow)
    assert body_s(slow.measured[0]) == pytest.approx(SLICE_S)  # it says nothing of any length


def test_a_short_time_has_the_least_rounds() -> None:
    process = Answering()
    rounds(process, seconds=0.1)
    assert len(process.measured) == slice_lengths.LEAST_ROUNDS


@pytest.mark.parametrize("how", ["dies_in", "breaks_in"])
def test_a_load_that_breaks_down_takes_no_more_turns_and_the_others_go_on(how: str) -> None:
    bad, good = Answering(**{how: 3}), Answering()
    rounds(bad, good)
    assert [turn.round for turn in bad.measured] == [0, 1, 2, 3]
    assert len(good.measured) > 50


def test_loads_that_all_break_down_end() -> None:
    bad = Answering(dies_in=-1)
    rounds(bad)
    assert len(bad.taken) == 1


# -- several jobs ----------------------------------------------------------------------------------


@dataclass
class Machine:
    """Memory that jobs take while they are open, and what happened."""

    free: int = 100
    said: list[str] = field(default_factory=list)

    def job(self, name: str, needs: int, phases: int = 1) -> TurnJob:
        def steps() -> Generator[WaitingJob]:
            self.free -= needs
            self.said.append(f"{name} opens")
            try:
                for phase in range(phases):
                    process = Answering()
                    yield WaitingJob(name, process, {f"{name}-{phase}": TurnTime(1.0)})
                    self.said.append(f"{name}: {len(process.measured) > 0}")
            finally:
                self.free += needs
                self.said.append(f"{name} ends")

        return TurnJob(name, steps(), needs)

    def run(self, *jobs: TurnJob) -> Silent:
        told = watcher()
        together = TurnGroup(told, lambda: self.free)
        together._spare_bytes = 0
        together.run(jobs)
        return told


def test_jobs_that_fit_are_open_together() -> None:
    machine = Machine()
    machine.run(*(machine.job(name, 20) for name in "abc"))
    assert machine.said[:3] == ["a opens", "b opens", "c opens"]
    assert machine.said[3:] == ["a: True", "a ends", "b: True", "b ends", "c: True", "c ends"]
    assert machine.free == 100


def test_the_first_stays_for_those_that_do_not_fit() -> None:
    machine = Machine()
    told = machine.run(*(machine.job(name, 40) for name in "abc"))
    assert machine.said == [
        "a opens", "b opens", "b: True", "b ends", "c opens", "a: True", "a ends", "c: True",
        "c ends",
    ]  # fmt: skip
    assert "no memory" in told.notes[0]


def test_jobs_of_which_no_two_fit_follow_one_another() -> None:
    machine = Machine()
    told = machine.run(*(machine.job(name, 60) for name in "ab"))
    assert machine.said == ["a opens", "a: True", "a ends", "b opens", "b: True", "b ends"]
    assert told.notes == ["b: no memory beside the others; it follows them"]


def test_a_crowd_is_cut_into_groups_that_share_the_first() -> None:
    machine = Machine()
    told = machine.run(*(machine.job(f"{number}", 1) for number in range(14)))
    opened = [line for line in machine.said if line.endswith("opens")]
    assert machine.said[:12] == opened[:12]
    assert machine.said[-2:] == ["13: True", "13 ends"]
    assert machine.said.index("0 ends") > machine.said.index("13 opens")
    assert told.notes == ["12: it follows 12 others, which are enough at once"]


def test_no_round_of_a_job_that_stays_comes_twice() -> None:
    machine = Machine()
    first = Answering()

    def staying() -> Generator[WaitingJob]:
        machine.free -= 40
        yield WaitingJob("a", first, {"a": TurnTime(1.0)})

    machine.run(TurnJob("a", staying(), 40), machine.job("b", 40), machine.job("c", 40))
    rounds_ = [turn.round for turn in first.measured]
    assert rounds_ == list(range(2 * slice_lengths.LEAST_ROUNDS))
    assert len({turn.session for _, turn in first.taken}) == 1


def test_jobs_go_on_from_phase_to_phase_together() -> None:
    machine = Machine()
    machine.run(machine.job("a", 10, phases=2), machine.job("b", 10))
    assert machine.said == [
        "a opens", "b opens", "a: True", "b: True", "b ends", "a: True", "a ends",
    ]  # fmt: skip


def test_a_job_that_ends_before_its_turns_is_left_out() -> None:
    machine = Machine()
    machine.run(machine.job("a", 10, phases=0), machine.job("b", 10))
    assert machine.said == ["a opens", "a ends", "b opens", "b: True", "b ends"]


def test_a_job_without_time_is_left_out_and_the_others_are_told_when_they_are_ready() -> None:
    machine = Machine()
    jobs = [
        replace(
            machine.job(name, 10),
            fits=lambda name=name: name != "b",  # type: ignore[misc]
            ready=lambda name=name: machine.said.append(f"{name} is ready"),  # type: ignore[misc]
        )
        for name in "abc"
    ]
    machine.run(*jobs)
    opening = ["a opens", "a is ready", "c opens", "c is ready"]
    assert machine.said == [*opening, "a: True", "a ends", "c: True", "c ends"]


def test_an_interruption_ends_every_job() -> None:
    machine = Machine()

    def interrupting() -> Generator[WaitingJob]:
        raise KeyboardInterrupt
        yield

    jobs = [machine.job("a", 10), TurnJob("b", interrupting(), 10)]
    with pytest.raises(KeyboardInterrupt):
        machine.run(*jobs)
    assert machine.said == ["a opens", "a ends"]
