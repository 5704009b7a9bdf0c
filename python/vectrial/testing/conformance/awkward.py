"""Rows of awkward but valid content, as in real files, which can make correct stores look wrong.

Each dataset is small and has one thing that is odd. A store keeps it and answers right, or declares
beforehand that it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.metric import Metric
from vectrial.model.schema import ARROW_TYPES, FieldType, Schema, fields_of_columns

Vectors = NDArray[np.float32]
Rng = np.random.Generator

ROWS, DIM, QUERIES = 60, 16, 12
_ALL = frozenset(Metric)
_LENGTHS = frozenset({Metric.L2, Metric.IP})  # a vector of length 0 has no direction


@dataclass(frozen=True)
class Awkward:
    """An awkward dataset. what: its oddity.

    vectors (n, d), queries (q, d), ids (n,): as in a file. columns: name → type and values.
    metrics: metrics under which it is valid. telling: it has revealed faults, and is tried on
    stores that take long for each dataset.
    """

    what: str
    vectors: Vectors
    queries: Vectors
    ids: NDArray[np.int64]
    columns: Mapping[str, tuple[FieldType, Sequence[Any]]] = field(default_factory=dict)
    k: int = 10
    metrics: frozenset[Metric] = _ALL
    telling: bool = False

    @property
    def metadata(self) -> pa.Table | None:
        """The columns as a table; None if there are no columns."""
        arrays = {n: pa.array(v, ARROW_TYPES[kind]) for n, (kind, v) in self.columns.items()}
        return pa.table(arrays) if arrays else None

    def schema(self, metric: Metric) -> Schema:
        """The schema that a plan makes, with the values that stores' limits apply to."""
        fields = () if self.metadata is None else fields_of_columns(self.metadata)
        both = np.vstack([self.vectors, self.queries]).astype(np.float64)
        lengths = np.linalg.norm(both, axis=1)
        norms = float(lengths.min()), float(lengths.max())
        return Schema(self.vectors.shape[1], metric, fields, norms)


def _plain(rng: Rng, rows: int = ROWS, dim: int = DIM) -> Vectors:
    return rng.normal(size=(rows, dim)).astype(np.float32)


def _copies(rng: Rng, noise: float, documents: int = 6, each: int = 20, dim: int = 64) -> Vectors:
    """Documents that were embedded several times: near duplicates."""
    base = np.repeat(_plain(rng, documents, dim), each, axis=0)
    return (base * (1 + noise * rng.normal(size=base.shape))).astype(np.float32)


def _make_dataset(what: str, vectors: Vectors, rng: Rng, **others: Any) -> Awkward:
    """A dataset with queries near some rows, and ids that are neither dense nor in order."""
    at = rng.integers(0, len(vectors), QUERIES)
    near = vectors[at] * (1 + 0.05 * rng.normal(size=(QUERIES, vectors.shape[1])))
    ids = 11 + 3 * rng.permutation(len(vectors)).astype(np.int64)
    return replace(Awkward(what, vectors, near.astype(np.float32), ids), **others)


def _of_vectors(rng: Rng) -> list[Awkward]:
    tiny, plain = _plain(rng), _plain(rng)
    tiny[::6] *= np.float32(1e-16)
    sparse = np.where(rng.random(plain.shape) < 0.9, 0, plain)
    sparse[:, 0] = 1
    some_zero = plain.copy()
    some_zero[::20] = 0
    spread = (plain * 10.0 ** rng.uniform(-6, 6, (ROWS, 1))).astype(np.float32)
    ordered = np.sort(rng.integers(0, 5, 300))
    clusters = (_plain(rng, 5)[ordered] + 0.05 * _plain(rng, 300)).astype(np.float32)
    duplicates = _plain(rng, 2)[rng.integers(0, 2, ROWS)]
    vectors: list[tuple[str, Vectors, dict[str, Any]]] = [
        ("no column", plain, {"telling": True}),
        ("one row", plain[:1], {}),
        ("two rows, and k above", plain[:2], {}),
        ("all rows equal", np.repeat(plain[:1], ROWS, axis=0), {"telling": True}),
        ("two rows, many times", duplicates, {}),
        ("near duplicates, 0.3 %", _copies(rng, 3e-3), {}),
        ("near duplicates, 0.02 %", _copies(rng, 2e-4), {}),
        ("near duplicates, 0.001 %", _copies(rng, 1e-5), {"telling": True}),
        ("whole numbers of a byte", _numbers(rng, 0, 256), {}),
        ("small whole numbers", _numbers(rng, -2, 3), {}),
        ("zeros and ones", _numbers(rng, 0, 2), {}),
        ("one-hot", np.eye(DIM, dtype=np.float32), {}),
        ("of length 1", plain / np.linalg.norm(plain, axis=1, keepdims=True), {}),
        ("some of length 1e-16", tiny, {"telling": True}),
        ("all of length 1e-15", plain * np.float32(1e-15), {}),
        ("of length 1e14", plain * np.float32(1e14), {}),
        ("of lengths from 1e-6 to 1e6", spread, {}),
        ("far from the origin", plain + np.float32(1000), {}),
        ("nine zeros in ten", sparse.astype(np.float32), {}),
        ("all negative", -np.abs(plain), {}),
        ("some rows zero", some_zero, {"metrics": _LENGTHS, "telling": True}),
        ("clusters one after the other", clusters, {}),
        ("k of 1", plain, {"k": 1}),
        ("k of all rows", plain, {"k": ROWS}),
        ("k above 512", _plain(rng, 700), {"k": 600, "telling": True}),
        ("k above the rows", plain, {"k": 1000}),
    ]
    made = [
        _make_dataset(what, np.ascontiguousarray(x, np.float32), rng, **o) for what, x, o in vectors
    ]
    for dim, telling in (
        (1, False),
        (2, False),
        (3, False),
        (7, False),
        (1536, False),
        (3072, True),
    ):
        one = _make_dataset(f"{dim} dimensions", _plain(rng, ROWS, dim), rng, telling=telling)
        made.append(replace(one, queries=_plain(rng, QUERIES, dim)))
    away = _make_dataset("queries far from every row", np.abs(plain), rng)
    made.append(replace(away, queries=-np.abs(_plain(rng, QUERIES))))
    rows = _make_dataset("queries that are rows", plain, rng)
    made.append(replace(rows, queries=plain[:QUERIES]))
    return made


def _numbers(rng: Rng, low: int, high: int) -> Vectors:
    rows = rng.integers(low, high, (ROWS, DIM)).astype(np.float32)
    rows[:, 0] = 3
    return rows


def _of_ids(rng: Rng) -> list[Awkward]:
    ids: dict[str, NDArray[np.int64]] = {
        "ids from 0": np.arange(ROWS),
        "ids in descending order": np.arange(ROWS)[::-1].copy(),
        "ids above 2^53": 2**53 + 1 + 2 * np.arange(ROWS),
        "ids up to 2^63 - 1": 2**63 - 1 - np.arange(ROWS),
        "ids of 63 random bits": rng.integers(0, 2**63 - 1, ROWS),
    }
    telling = {"ids above 2^53"}
    return [
        _make_dataset(what, _plain(rng), rng, ids=one.astype(np.int64), telling=what in telling)
        for what, one in ids.items()
    ]


def _of_columns(rng: Rng) -> list[Awkward]:
    turns = np.arange(ROWS)

    def cycled(values: Sequence[Any]) -> list[Any]:
        return [values[at % len(values)] for at in turns.tolist()]

    numbers = rng.integers(0, 9, ROWS).tolist()
    text, whole, real, truth = FieldType.STRING, FieldType.INT, FieldType.FLOAT, FieldType.BOOL
    each: list[tuple[str, FieldType, list[Any]]] = [
        ("one column of numbers", whole, numbers),
        ("a column of one value", whole, [7] * ROWS),
        ("numbers, every second missing", whole, [n if n % 2 else None for n in turns.tolist()]),
        ("a column with one value, else missing", text, ["x", *[None] * (ROWS - 1)]),
        ("no value at all", text, [None] * ROWS),
        (
            "whole numbers of 64 bits",
            whole,
            cycled([-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1]),
        ),
        ("floats of every size", real, cycled([-1e300, -0.0, 0.0, 5e-324, 1e-30, 0.1, 1e300])),
        ("truth, all true", truth, [True] * ROWS),
        ("texts with spaces at an end", text, cycled(["red", "red ", " red", "  red  ", " "])),
        ("texts with control characters", text, cycled(["a\x01b", "a\tb", "a\nb", "\x1f", "\x7f"])),
        ("texts with U+0000", text, cycled(["a\0b", "a", "\0", "ab"])),
        (
            "texts of many scripts",
            text,
            cycled(["größe", "大きさ", "尺寸", "ขนาด", "حجم", "μέγεθος", "🦉"]),
        ),
        ("empty texts", text, cycled(["", "x", ""])),
        (
            "texts of quotes and signs",
            text,
            cycled(["it's", '"q"', "back\\slash", "100%_", "{a,b}|(c)*"]),
        ),
        ("texts of 4,000 bytes", text, cycled([c * 4000 for c in "abc"])),
        (
            "texts that look like something else",
            text,
            cycled(["1", "1.0", "true", "null", "[]", "NaN"]),
        ),
        ("texts that differ by case", text, cycled(["red", "Red", "RED"])),
        ("texts in two normal forms", text, cycled(["é", "e\u0301", "ﬁ", "fi"])),
        ("texts, all different", text, [f"doc-{at}/v{at % 3}" for at in turns.tolist()]),
        ("texts with missing and empty ones", text, cycled(["", None, "x"])),
    ]
    telling = {
        "texts with spaces at an end", "texts with control characters",
        "texts of many scripts", "whole numbers of 64 bits",
        "texts of quotes and signs", "floats of every size",
    }  # fmt: skip
    made = [
        _make_dataset(
            what, _plain(rng), rng, columns={"value": (kind, values)}, telling=what in telling
        )
        for what, kind, values in each
    ]
    many = {f"c{at}": (whole, (turns * at % 7).tolist()) for at in range(50)}
    mixed = {
        "n": (whole, numbers),
        "x": (real, rng.normal(size=ROWS).tolist()),
        "t": (text, cycled(["a", "b"])),
        "b": (truth, cycled([True, False, False])),
    }
    made.append(_make_dataset("fifty columns", _plain(rng), rng, columns=many))
    made.append(
        _make_dataset("a column of each type", _plain(rng), rng, columns=mixed, telling=True)
    )
    return made


def datasets(seed: int = 0) -> list[Awkward]:
    """All awkward datasets, with random numbers from this seed."""
    makers: tuple[Callable[[Rng], list[Awkward]], ...] = (_of_vectors, _of_ids, _of_columns)
    return [
        one for at, make in enumerate(makers) for one in make(np.random.default_rng([seed, at]))
    ]


DATASETS: Sequence[Awkward] = tuple(datasets())


def together(those: Sequence[Awkward]) -> Awkward:
    """One dataset with the columns of several, for stores that take long for each dataset."""
    columns = {
        f"{at} {name}": column
        for at, one in enumerate(those)
        for name, column in one.columns.items()
    }
    return replace(those[0], what=f"{len(columns)} awkward columns", columns=columns)
