"""The search parameter that trades speed for recall, and the values worth trying."""

from __future__ import annotations

from vectrial.model.capabilities import IndexKind, bounds

#: Factor from one value to the next: fine enough that the next is hardly slower.
_STRIDE = 2**0.5


def parameter_values(kind: IndexKind, k: int) -> tuple[int, ...]:
    """Values of `kind.recall_parameter`, ascending, from the least that makes sense to a generous
    one; empty if the index has no such parameter."""
    name = kind.recall_parameter
    if name is None:
        return ()
    low, high = bounds(kind.search.model_fields[name].metadata)
    least = max(int(low or 1), k if name == kind.candidates else 1)
    most = max(least, int(kind.high_recall_params[name]))
    if high is not None:
        most = min(most, int(high))
    values, value = [], float(least)
    while value < most:
        values.append(round(value))
        value *= _STRIDE
    return tuple(dict.fromkeys([*values, most]))
