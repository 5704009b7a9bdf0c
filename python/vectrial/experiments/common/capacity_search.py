"""The search for the greatest rate that holds, although every look is noisy.

The caller measures one rate after another and reports whether it held. This module knows nothing
of stores, so the search is tested on simulated ones.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum

#: Rates are doubled, or halved, until one holds and another does not.
_STRIDE = 2.0
#: Two looks at a rate decide if they agree; if they differ, a third one decides.
_ALIKE = 2
#: Steps down at the end, after which nothing is confirmed; they grow after each group of this size.
MOST_STEPS = 12
_LONGER_EVERY = 2


class RatePurpose(StrEnum):
    """Reason for trying a rate."""

    BRACKET = "bracket"  # one rate that holds, and one that does not
    NARROW = "narrow"  # closer to where it ends
    CONFIRM = "confirm"  # a fresh look, longer, at the answer


@dataclass(frozen=True)
class RateProbe:
    """A rate to measure, in arrivals per second."""

    rate: float
    purpose: RatePurpose


@dataclass(frozen=True)
class RateVerdict:
    """Verdict on a rate: held or not. client: the client was at its limit, which makes latencies
    longer, never shorter. A rate that then did not hold says nothing about the store; one that held
    still counts. moved: after this look the store is asked for more, so neither this look nor
    earlier ones confirm anything."""

    held: bool
    client: bool = False
    moved: bool = False


class Limit(StrEnum):
    """Factor that keeps the answer from being greater."""

    STORE = "store"
    CLIENT = "client"  # the store does at least as much
    ASKED = "asked"  # no greater rate was to be tried: it does at least as much


@dataclass(frozen=True)
class FoundRate:
    """Result of a search.

    rate: greatest confirmed rate; None if none was confirmed.
    low, high: greatest rate that held before the confirmation (None: none held), and the least
        rate above it that did not hold (None: every rate held).
    limit: what keeps the answer from being greater. confirmations: number of looks at `rate`,
        which all held. steps: number of times that the rate was lowered to be confirmed.
    less_than: least rate that did not hold while the client was within its limits.
    """

    rate: float | None
    low: float | None
    high: float | None
    limit: Limit
    confirmations: int
    steps: int
    less_than: float | None = None


Search = Generator[RateProbe, RateVerdict, FoundRate]


def seek(
    start: float, *, resolution: float, confirmations: int, least: float, most: float
) -> Search:
    """Ask for rates, receive the verdict on each, and return the greatest rate that holds.

    The first rate is doubled (or halved, if it does not hold) until the answer lies between two
    rates; then the interval is halved geometrically until they are no more than `resolution` apart.
    One look that holds leads upwards. A rate that does not hold is looked at again, as is every
    rate while narrowing: two looks decide. Finally the answer is looked at `confirmations` times
    anew: it goes down, by `resolution` and then by more, until all of them hold.

    Args:
        start: the first rate. resolution: relative, 0.05 for 5 %.
        least, most: no rate is tried beyond these.
    """
    failed_rates = _FailedRates()
    low = yield from _bracket(min(max(start, least), most), least, most, failed_rates)
    if low is None:
        return failed_rates.answer(None, None, 0, 0)
    while failed_rates.rate is not None and failed_rates.rate / low > 1 + resolution:
        middle = (low * failed_rates.rate) ** 0.5
        verdict = yield from _decide(middle, RatePurpose.NARROW)
        if verdict.held:
            low = middle
        else:
            failed_rates.add(middle, verdict)
    return (yield from _confirm(low, failed_rates, resolution, confirmations, least))


@dataclass
class _FailedRates:
    """Rates that did not hold, each below the one before.

    rate: least rate that narrowed the search. last: verdict on the least rate of all.
    less_than: least rate that did not hold while the client was within its limits.
    """

    rate: float | None = None
    last: RateVerdict | None = None
    less_than: float | None = None

    def add(self, rate: float, verdict: RateVerdict, *, narrows: bool = True) -> None:
        self.last = verdict
        if narrows:
            self.rate = rate
        if not verdict.client:
            self.less_than = rate

    def answer(
        self, rate: float | None, low: float | None, confirmed: int, steps: int
    ) -> FoundRate:
        """The answer. Only rates that did not hold limit it: a client at its own limit while a rate
        held does not reduce the rate."""
        limit = Limit.ASKED
        if self.last is not None:
            limit = Limit.CLIENT if self.last.client else Limit.STORE
        return FoundRate(rate, low, self.rate, limit, confirmed, steps, self.less_than)


def _bracket(
    start: float, least: float, most: float, failed_rates: _FailedRates
) -> Generator[RateProbe, RateVerdict, float | None]:
    """The greatest rate that holds, or None; rates that did not hold go to `failed_rates`."""
    low: float | None = None
    rate = start
    while True:
        verdict = yield from _measure(rate, RatePurpose.BRACKET)
        if not verdict.held:
            verdict = yield from _decide(rate, RatePurpose.BRACKET, verdict)
        if verdict.held:
            low = rate
            if failed_rates.rate is not None or rate >= most:
                return low
            rate = min(rate * _STRIDE, most)
        else:
            failed_rates.add(rate, verdict)
            if low is not None or rate <= least:
                return low
            rate = max(rate / _STRIDE, least)


def _measure(rate: float, purpose: RatePurpose) -> Generator[RateProbe, RateVerdict, RateVerdict]:
    """Look at a rate until a verdict counts."""
    while True:
        verdict = yield RateProbe(rate, purpose)
        if not verdict.moved:
            return verdict


def _decide(
    rate: float, purpose: RatePurpose, first: RateVerdict | None = None
) -> Generator[RateProbe, RateVerdict, RateVerdict]:
    """The verdict on a rate on which two looks agree."""
    looks = [] if first is None else [first]
    while True:
        for held in (True, False):
            alike = [look for look in looks if look.held is held]
            if len(alike) >= _ALIKE:
                return RateVerdict(held, any(look.client for look in alike))
        looks.append((yield from _measure(rate, purpose)))


def _confirm(
    rate: float, failed_rates: _FailedRates, resolution: float, confirmations: int, least: float
) -> Search:
    """Fresh looks at the answer; it goes down until all of them hold."""
    low = rate
    for steps in range(MOST_STEPS + 1):
        looks: list[RateVerdict] = []
        while len(looks) < confirmations and all(look.held for look in looks):
            verdict = yield RateProbe(rate, RatePurpose.CONFIRM)
            looks = [] if verdict.moved else [*looks, verdict]
        if all(look.held for look in looks):
            return failed_rates.answer(rate, low, confirmations, steps)
        failed_rates.add(rate, looks[-1], narrows=False)
        if rate <= least:
            break
        rate = max(rate / (1 + resolution) ** (1 + steps // _LONGER_EVERY), least)
    return failed_rates.answer(None, low, 0, steps)
