"""The search for the greatest rate that holds, on simulated stores of known capacity."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectrial.experiments.common.capacity_search import (
    MOST_STEPS,
    FoundRate,
    Limit,
    RateProbe,
    RatePurpose,
    RateVerdict,
    seek,
)

Store = Callable[[float], RateVerdict]


def driven(
    judge: Callable[[RateProbe], RateVerdict],
    start: float = 100.0,
    most: float = 1e6,
    resolution: float = 0.05,
) -> tuple[FoundRate, list[RateProbe]]:
    search = seek(start, resolution=resolution, confirmations=3, least=0.5, most=most)
    tried = [next(search)]
    while True:
        try:
            tried.append(search.send(judge(tried[-1])))
        except StopIteration as end:
            found: FoundRate = end.value
            return found, tried
        assert len(tried) < 200, "the search goes on and on"


def sought(
    store: Store, start: float = 100.0, most: float = 1e6, resolution: float = 0.05
) -> tuple[FoundRate, list[RateProbe]]:
    return driven(lambda one: store(one.rate), start, most, resolution)


def sharp(capacity: float) -> Store:
    return lambda rate: RateVerdict(rate <= capacity)


def noisy(capacity: float, width: float, seed: int) -> Store:
    """A rate r holds with probability 1 / (1 + (r / capacity)^(1 / width))."""
    draw = random.Random(seed)

    def look(rate: float) -> RateVerdict:
        steep = min(math.log(rate / capacity) / width, 700)
        return RateVerdict(draw.random() < 1 / (1 + math.exp(steep)))

    return look


@given(
    capacity=st.floats(1, 2e5), start=st.floats(0.01, 1e6), resolution=st.sampled_from([0.02, 0.1])
)
def test_without_noise_the_answer_is_right_to_the_resolution(
    capacity: float, start: float, resolution: float
) -> None:
    found, tried = sought(sharp(capacity), start, resolution=resolution)
    assert found.rate is not None
    assert found.high is not None
    assert found.rate <= capacity < found.rate * (1 + resolution) * (1 + 1e-9)
    assert found.low == found.rate
    assert capacity < found.high <= found.rate * (1 + resolution) * (1 + 1e-9)
    assert (found.limit, found.confirmations, found.steps) == (Limit.STORE, 3, 0)
    assert [one.rate for one in tried[-3:]] == [found.rate] * 3
    assert {one.purpose for one in tried[-3:]} == {RatePurpose.CONFIRM}


@settings(max_examples=60)
@given(capacity=st.floats(10, 1e5), seed=st.integers(0, 10**6))
def test_with_noise_the_answer_was_confirmed_and_is_not_far(capacity: float, seed: int) -> None:
    """Where at 5 % above the capacity 8 % of the looks hold, and 92 % at 5 % below."""
    found, tried = sought(noisy(capacity, 0.02, seed), start=capacity / 7)
    assert found.rate is not None
    assert capacity * 0.65 < found.rate < capacity * 1.12
    assert all(one.rate == found.rate for one in tried[-3:])


def test_with_noise_the_answer_is_hardly_ever_above_what_holds() -> None:
    answers = [sought(noisy(1000, 0.02, seed))[0].rate or 0.0 for seed in range(300)]
    answers.sort()
    assert 930 < answers[150] < 1000, "in the middle a little below"
    assert sum(answer > 1030 for answer in answers) <= 6
    assert answers[15] > 850


def test_a_single_pause_of_the_machine_does_not_end_the_way_up() -> None:
    looks: list[float] = []

    def paused(rate: float) -> RateVerdict:
        looks.append(rate)
        return RateVerdict(rate <= 1000 and len(looks) != 2)

    found, tried = sought(paused, start=100)
    assert found.rate == pytest.approx(1000, rel=0.05)
    assert [one.rate for one in tried[:4]] == [100, 200, 200, 200], "two looks decide"


def test_what_stops_the_client_is_not_the_stores_capacity() -> None:
    found, _ = sought(lambda rate: RateVerdict(rate <= 5000, client=rate > 4000))
    assert found.rate is not None
    assert found.limit is Limit.CLIENT
    assert found.less_than is None, "nothing beyond it was the store's"
    below_it, _ = sought(lambda rate: RateVerdict(rate <= 5000, client=rate > 9000))
    assert below_it.limit is Limit.STORE


def test_a_rate_that_held_while_the_client_was_at_its_limit_held() -> None:
    """The client makes latencies longer, never shorter: what ends the search is the store's."""
    found, _ = sought(lambda rate: RateVerdict(rate <= 5000, client=rate <= 5000))
    assert found.limit is Limit.STORE
    assert found.rate == pytest.approx(5000, rel=0.06)


def test_an_answer_that_the_client_limits_says_where_the_store_ended() -> None:
    found, _ = sought(lambda rate: RateVerdict(rate <= 4000, client=rate < 6000))
    assert found.limit is Limit.CLIENT
    assert found.rate is not None
    assert found.rate <= 4000
    assert found.less_than is not None
    assert 6000 <= found.less_than <= 12_000


def test_what_was_asked_otherwise_confirms_nothing() -> None:
    """After the second look at the answer the store is asked for more."""
    confirming: list[RateVerdict] = []

    def judge(one: RateProbe) -> RateVerdict:
        held = one.rate <= 1000
        if one.purpose is not RatePurpose.CONFIRM:
            return RateVerdict(held)
        confirming.append(RateVerdict(held, moved=len(confirming) == 1))
        return confirming[-1]

    found, tried = driven(judge)
    assert found.rate is not None
    assert (found.steps, len(confirming)) == (0, 5)
    assert [one.rate for one in tried[-5:]] == [found.rate] * 5


def test_no_greater_rate_than_asked_for() -> None:
    found, tried = sought(sharp(1e9), most=700)
    assert (found.rate, found.high, found.limit) == (700, None, Limit.ASKED)
    assert max(one.rate for one in tried) == 700


def test_where_nothing_holds_there_is_no_answer() -> None:
    found, tried = sought(lambda _: RateVerdict(False))
    assert (found.rate, found.low, found.limit) == (None, None, Limit.STORE)
    assert min(one.rate for one in tried) == 0.5
    client, _ = sought(lambda _: RateVerdict(False, client=True))
    assert client.limit is Limit.CLIENT


def test_the_answer_steps_down_until_it_is_confirmed() -> None:
    """Once it is looked at for longer, less holds."""

    def tires(at: float) -> Callable[[RateProbe], RateVerdict]:
        return lambda one: RateVerdict(
            one.rate <= (at if one.purpose is RatePurpose.CONFIRM else 1000)
        )

    found, _ = driven(tires(800))
    assert found.rate is not None
    assert found.low is not None
    assert 700 < found.rate <= 800
    assert found.low > 950
    assert found.steps >= 3
    never, tried = driven(tires(1))
    assert never.rate is None
    assert sum(one.purpose is RatePurpose.CONFIRM for one in tried) == MOST_STEPS + 1
