"""The search for the least value of the recall parameter that gives a recall."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from vectrial.model.phase import Phase

#: The value found is at most this share above one that misses the recall, or the next number; it is
#: raised by as much.
_RESOLUTION = 0.03


@dataclass
class RecallParameter:
    """The search parameter that is turned, and its current value.

    values: ascending, from the least that makes sense to the greatest; numbers between them make
        sense, too. Empty: it is not turned.
    """

    name: str | None
    values: Sequence[int]
    value: int = field(init=False)

    def __post_init__(self) -> None:
        self.value = self.values[0] if self.values else 0

    @property
    def setting(self) -> dict[str, int]:
        """The parameter with its current value, as an entry of a point."""
        return {self.name: self.value} if self.name and self.values else {}

    @property
    def metric(self) -> dict[str, float | None]:
        """The current value, as a metric."""
        return {"recall_parameter_value": self.value} if self.setting else {}

    @property
    def name_entry(self) -> dict[str, str]:
        """Name of the parameter, if there is one."""
        return {"recall_parameter": self.name} if self.name and self.values else {}

    @property
    def label(self) -> str:
        """Setting of the parameter, for progress messages."""
        return "".join(f", {name} = {value}" for name, value in self.setting.items())

    def raise_value(self) -> bool:
        """Raise the parameter a little; False if that is not possible."""
        if not self.values or self.value >= self.values[-1]:
            return False
        self.value = min(self.values[-1], _next(self.value))
        return True


def find_recall(
    parameter: RecallParameter, measure: Callable[[], Phase], recall: float
) -> Generator[Phase, None, Phase]:
    """Set the parameter to the least value that reaches the recall, to 3 %; returns the phase
    measured there, or the phase at the greatest value if none reaches it.

    measure: searches with the parameter's current value.
    """
    seen: dict[int, Phase] = {}

    def reaches(value: int) -> Generator[Phase, None, bool]:
        parameter.value = value
        if value not in seen:
            seen[value] = measure()
            yield seen[value]
        return recall_of(seen[value]) >= recall

    values = parameter.values or [parameter.value]
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if (yield from reaches(values[middle])):
            high = middle
        else:
            low = middle + 1
    found = values[high]
    if (yield from reaches(found)) and high > 0:
        miss = values[high - 1]
        while found > _next(miss):
            middle = min(max(round(math.sqrt(miss * found)), miss + 1), found - 1)
            if (yield from reaches(middle)):
                found = middle
            else:
                miss = middle
    parameter.value = found
    return seen[found]


def _next(value: int) -> int:
    """The next value that is worth a try."""
    return max(value + 1, math.floor(value * (1 + _RESOLUTION)))


def recall_of(phase: Phase) -> float:
    """Mean recall; 0 if there were no answers."""
    return phase.metrics.get("recall_mean") or 0.0
