"""The search for the least value of the recall parameter that gives a recall."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from vectrial.model.phase import Phase


@dataclass
class RecallParameter:
    """The search parameter that is turned, its values, and where it is; no values: it is not."""

    name: str | None
    values: Sequence[int]
    at: int = 0

    @property
    def setting(self) -> dict[str, int]:
        """The parameter with its current value, as an entry of a point."""
        return {self.name: self.values[self.at]} if self.name and self.values else {}

    @property
    def value(self) -> dict[str, float | None]:
        """The current value, as a metric."""
        return {"recall_parameter_value": self.values[self.at]} if self.setting else {}

    @property
    def name_entry(self) -> dict[str, str]:
        """Name of the parameter, if there is one."""
        return {"recall_parameter": self.name} if self.name and self.values else {}

    @property
    def label(self) -> str:
        """Setting of the parameter, for progress messages."""
        return "".join(f", {name} = {value}" for name, value in self.setting.items())

    def raise_value(self) -> bool:
        """Set the parameter to its next value; False if there is none."""
        if self.at + 1 >= len(self.values):
            return False
        self.at += 1
        return True


def find_recall(
    parameter: RecallParameter, measure: Callable[[], Phase], recall: float
) -> Generator[Phase, None, Phase]:
    """Set the parameter to the least value that reaches the recall; returns the phase measured
    there, or the phase at the greatest value if none reaches it.

    measure: searches with the parameter's current value.
    """
    seen: dict[int, Phase] = {}
    low, high = 0, max(len(parameter.values) - 1, 0)
    while True:
        parameter.at = (low + high) // 2
        if parameter.at not in seen:
            seen[parameter.at] = measure()
            yield seen[parameter.at]
        if low == high:
            return seen[parameter.at]
        if recall_of(seen[parameter.at]) >= recall:
            high = parameter.at
        else:
            low = parameter.at + 1


def recall_of(phase: Phase) -> float:
    """Mean recall; 0 if there were no answers."""
    return phase.metrics.get("recall_mean") or 0.0
