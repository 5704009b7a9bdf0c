"""The search parameter that trades speed for recall, and the values worth trying."""

from __future__ import annotations

from collections.abc import Sequence

from annotated_types import Ge, Gt, Le, Lt

from vectrial.model.capabilities import IndexKind

#: From one value to the next: fine enough that the next is hardly slower.
_STRIDE = 2**0.5
#: What an index cannot do with fewer than k of.
_AT_LEAST_K = "ef_search"


def parameter_values(kind: IndexKind, k: int) -> tuple[int, ...]:
    """Values of `kind.recall_parameter`, ascending, from the least that makes sense to a generous
    one; none where the index has no such parameter."""
    name = kind.recall_parameter
    if name is None:
        return ()
    low, high = bounds(kind.search.model_fields[name].metadata)
    least = max(int(low or 1), k if name == _AT_LEAST_K else 1)
    most = max(least, int(kind.high_recall_params[name]))
    if high is not None:
        most = min(most, int(high))
    values, value = [], float(least)
    while value < most:
        values.append(round(value))
        value *= _STRIDE
    return tuple(dict.fromkeys([*values, most]))


def bounds(metadata: Sequence[object]) -> tuple[float | None, float | None]:
    """The bounds that a field of a parameter model declares; None where there is none."""
    low: float | None = None
    high: float | None = None
    for one in metadata:
        match one:
            case Ge(ge=value) | Gt(gt=value) if isinstance(value, int | float):
                low = value
            case Le(le=value) | Lt(lt=value) if isinstance(value, int | float):
                high = value
    return low, high
