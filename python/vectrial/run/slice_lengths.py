"""The length of slices, and of the part at their start that is left out: both are found in turns
that do not count.

A store that returns to a processor finds its caches empty. How long it is slower depends on store
and processor: it may lose 1 % of 50 ms, or half of the first 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial.model.phase import COLDER, PARTS, Slice, TurnTime

#: The longest slice, in seconds.
LONGEST_S = 2.0
#: Least requests of a slice, as long as this many rounds fit the time.
REQUESTS, ROUNDS = 200, 100
#: Rounds at least, whatever the time.
LEAST_ROUNDS = 20
#: Least ratio of the part of a slice that counts to the part that is left out.
_BODY = 3.0
#: Most parts that are left out (if they do not suffice, the slice was too short to tell), and
#: number of parts that make its end.
_MOST_PARTS, _END = 5, 3
#: A slice may be longer than the turns it was found by by this factor.
_ALIKE = 1.5


@dataclass(frozen=True)
class SliceLength:
    """Length of a slice: its head, which is left out, and its body, which counts."""

    head_s: float
    body_s: float

    @property
    def whole_s(self) -> float:
        """Length of head and body together."""
        return self.head_s + self.body_s


def first_length(time: TurnTime) -> SliceLength:
    """The length to try before anything is known."""
    return _slice_of_length(time.slice_s * PARTS / (PARTS - 1))


def _slice_of_length(whole_s: float) -> SliceLength:
    """A slice of this whole length with one part as its head."""
    return SliceLength(whole_s / PARTS, whole_s * (PARTS - 1) / PARTS)


def fit_length(
    tried: SliceLength, time: TurnTime, turns: Sequence[Slice]
) -> tuple[SliceLength, bool]:
    """The length that slices need, from turns of a tried length, and whether it is final. If not,
    it is the length to try next.

    Args:
        turns: slices in parts; those with a part without answers are ignored.
    """
    rates = np.array([one.parts for one in turns if len(one.parts) == PARTS and min(one.parts) > 0])
    if not len(rates):
        answered = any(one.count for one in turns)
        longer = min(2 * tried.whole_s, _longest_slice_s(time))
        known = not answered or longer <= tried.whole_s
        return (tried if known else _slice_of_length(longer)), known
    rate = float(np.median([one.rate or 0.0 for one in turns]))
    wanted_s = max(time.slice_s, min(REQUESTS / rate, time.seconds / ROUNDS))
    wanted_s = min(wanted_s, LONGEST_S)
    if wanted_s > _ALIKE * tried.body_s:
        return _slice_of_length(wanted_s * PARTS / (PARTS - 1)), False
    cold = _cold_parts(rates)
    if cold is None and 2 * tried.whole_s <= _longest_slice_s(time):
        return _slice_of_length(2 * tried.whole_s), False
    head_s = (cold or _MOST_PARTS) * tried.whole_s / PARTS
    body_s = max(wanted_s, min(_BODY * head_s, _longest_slice_s(time) - head_s))
    return SliceLength(head_s, body_s), True


def _longest_slice_s(time: TurnTime) -> float:
    """The longest slice that leaves time for the minimum number of rounds."""
    return min(LONGEST_S, max(time.slice_s, time.seconds / LEAST_ROUNDS))


def _cold_parts(rates: NDArray[np.float64]) -> int | None:
    """Number of parts (of n slices with PARTS each) to leave out so that the rest is as fast as the
    end; None if leaving out half of them does not suffice."""
    # Each turn by its own end: the machine's pace changes between turns.
    shares = (rates / rates[:, -_END:].mean(axis=1, keepdims=True)).mean(axis=0)
    for parts in range(1, _MOST_PARTS + 1):
        if 1 - shares[parts:].mean() <= COLDER:
            return parts
    return None
