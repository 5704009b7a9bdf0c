"""The search space of tuning: build parameters of an index with ranges worth trying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.model.capabilities import IndexKind, bounds

Values = Mapping[str, Any]

#: Ranges of build parameters by name, unless the index declares others in
#: `IndexKind.tuning_ranges`. Parameters in neither keep their defaults.
_RANGES: Mapping[str, tuple[int, int]] = {
    "m": (8, 64),
    "ef_construction": (40, 512),
    "nlist": (16, 4096),
    "nbits": (4, 8),
}
#: Minimum rows per list of an inverted index.
_ROWS_PER_LIST = 32


@dataclass(frozen=True)
class IntegerRange:
    """An integer build parameter from `low` to `high`, searched on a logarithmic scale."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Choices:
    """A build parameter with a set of values."""

    name: str
    values: tuple[int, ...]


Knob = IntegerRange | Choices


def knobs(kind: IndexKind, rows: int, dim: int) -> tuple[Knob, ...]:
    """The parameters to vary for an index on `rows` rows of `dim` dimensions, within its bounds."""
    found: list[Knob] = []
    for name, field in kind.build.model_fields.items():
        if name == "m_pq":  # codes per vector, which are all of one length
            parts = tuple(n for n in range(max(1, dim // 16), dim // 2 + 1) if dim % n == 0)
            found += [Choices(name, parts)] if parts else []
            continue
        span = kind.tuning_ranges.get(name, _RANGES.get(name))
        if span is None:
            continue
        low, high = bounds(field.metadata)
        least = max(span[0], int(low)) if low is not None else span[0]
        most = min(span[1], int(high)) if high is not None else span[1]
        if name == "nlist":
            most = min(most, rows // _ROWS_PER_LIST)
        if least < most:
            found.append(IntegerRange(name, least, most))
    return tuple(found)


def defaults(kind: IndexKind, knobs: tuple[Knob, ...]) -> dict[str, Any]:
    """The store's defaults of these parameters, if they are within the ranges."""
    out: dict[str, Any] = {}
    for knob in knobs:
        own = kind.build.model_fields[knob.name].default
        inside = (
            own in knob.values
            if isinstance(knob, Choices)
            else isinstance(own, int) and knob.low <= own <= knob.high
        )
        if inside:
            out[knob.name] = own
    return out
