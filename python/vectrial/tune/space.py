"""What may be turned of an index: its build parameters with ranges worth trying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.experiments.common.recall_parameter import bounds
from vectrial.model.store import IndexKind

Values = Mapping[str, Any]

#: Ranges of build parameters by the names that every store uses for them. An index may declare its
#: own in `IndexKind.tuning_ranges`; a parameter without a range keeps its default.
_RANGES: Mapping[str, tuple[int, int]] = {
    "m": (8, 64),
    "ef_construction": (40, 512),
    "nlist": (16, 4096),
    "nbits": (4, 8),
}
#: Rows that a list of an inverted index has at least, so that its centre means something.
_ROWS_PER_LIST = 32


@dataclass(frozen=True)
class Range:
    """A build parameter, an integer from `low` to `high`; searched on a logarithmic scale."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Choice:
    """A build parameter that is one of some values."""

    name: str
    values: tuple[int, ...]


Knob = Range | Choice


def knobs(kind: IndexKind, rows: int, dim: int) -> tuple[Knob, ...]:
    """What may be turned of this kind of index on so many rows, within its parameters' bounds."""
    found: list[Knob] = []
    for name, field in kind.build.model_fields.items():
        if name == "m_pq":  # codes per vector, which are all of one length
            parts = tuple(n for n in range(max(1, dim // 16), dim // 2 + 1) if dim % n == 0)
            found += [Choice(name, parts)] if parts else []
            continue
        asked = kind.tuning_ranges.get(name, _RANGES.get(name))
        if asked is None:
            continue
        low, high = bounds(field.metadata)
        least = max(asked[0], int(low)) if low is not None else asked[0]
        most = min(asked[1], int(high)) if high is not None else asked[1]
        if name == "nlist":
            most = min(most, rows // _ROWS_PER_LIST)
        if least < most:
            found.append(Range(name, least, most))
    return tuple(found)


def defaults(kind: IndexKind, of: tuple[Knob, ...]) -> dict[str, Any]:
    """The store's own values of what may be turned, where they are numbers in its range."""
    out: dict[str, Any] = {}
    for knob in of:
        own = kind.build.model_fields[knob.name].default
        inside = (
            own in knob.values
            if isinstance(knob, Choice)
            else isinstance(own, int) and knob.low <= own <= knob.high
        )
        if inside:
            out[knob.name] = own
    return out
