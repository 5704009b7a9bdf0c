"""Numbers as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from vectrial.stats.intervals import Spread

NOTHING = "—"

#: The text after the number in a value as it is read: " ms", "/s".
_UNIT_TOLD = re.compile(r"[ /].*$")


def number(value: float, digits: int = 3) -> str:
    """A number, at least `digits` significant digits, grouped: 1234.5 → '1,234', 0.01234."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    decimals = max(0, digits - whole)
    return f"{value:,.{min(decimals, 12)}f}"


def recall(value: float) -> str:
    """A recall with four decimals, truncated: a recall below 1 never reads as 1."""
    # 0.5005 · 10,000 is a little less than 5,005.
    whole = math.floor(round(value * 10_000, 6))
    return f"{min(whole, 9_999 if value < 1 else whole) / 10_000:.4f}"


def ratio(value: float, digits: int = 3) -> str:
    """A ratio to another value: '×0.24'."""
    return f"×{number(value, digits)}"


def is_recall(metric: str) -> bool:
    """True if the metric is a recall, which must not be rounded up."""
    return metric.startswith("recall_")


def duration(us: float) -> str:
    """A time in microseconds, in the unit that fits: '850 ns', '12.3 µs', '4.56 ms', '1.20 s'."""
    if us == 0:
        return "0"
    for unit, scale in (("ns", 1e-3), ("µs", 1.0), ("ms", 1e3)):
        if abs(us) < scale * 1000:
            return f"{number(us / scale)} {unit}"
    return f"{number(us / 1e6)} s"


def seconds(value: float) -> str:
    """A time in seconds, in the unit that fits, up to minutes and hours."""
    if value >= 5400:
        return f"{number(value / 3600)} h"
    if value >= 300:
        return f"{number(value / 60)} min"
    return duration(value * 1e6)


def size(count: float) -> str:
    """A number of bytes in decimal units: '1.23 GB'."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} TB"


def measure(value: float, unit: str) -> str:
    """A value formatted with the unit that the results hold it in."""
    if unit == "us":
        return duration(value)
    if unit == "s":
        return seconds(value)
    if unit == "B":
        return size(value)
    if unit in ("1", ""):
        return f"{value:,.0f}" if float(value).is_integer() else number(value)
    if unit.startswith("1/"):
        return f"{number(value)}/{unit.removeprefix('1/')}"
    return f"{number(value)} {unit}"


def figure(metric: str, value: float, unit: str) -> str:
    """A formatted value of a metric of the results."""
    return recall(value) if is_recall(metric) else measure(value, unit)


def spread(value: Spread, unit: str) -> str:
    """The range around a median, '4,700–4,900'; empty if both ends read the same."""
    return "" if value.kind == "single" else span(value.low, value.high, unit)


def span(least: float, most: float, unit: str) -> str:
    """A range of two values in a unit, '4,700–4,900 MB'; empty if both read the same."""
    low, high = measure(least, unit), measure(most, unit)
    if low == high:
        return ""
    unit_told = _UNIT_TOLD.search(low)
    if unit_told is not None and high.endswith(unit_told[0]):
        low = low.removesuffix(unit_told[0])
    return f"{low}–{high}"


#: Order of well-known parameters: what the index is built with, then what it is asked with.
_FIRST = ("m", "ef_construction", "nlist", "ef_search", "nprobe")


def params(values: Mapping[str, Any]) -> str:
    """Parameters as 'm=16 ef_search=64', the well-known ones first. A value of None was left to the
    store and is omitted."""
    named = [key for key, value in values.items() if value is not None]
    order = sorted(named, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    return " ".join(f"{key}={_value_text(values[key])}" for key in order) or "defaults"


def _value_text(value: Any) -> str:
    return number(value, 6) if isinstance(value, float) else str(value)


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: '1 store', '3 stores'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def rows(count: int) -> str:
    """A number of rows: '50,000 rows'."""
    return plural(count, "row")


def list_in_words(items: list[str]) -> str:
    """The items as a list in prose: 'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
