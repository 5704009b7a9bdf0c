"""Files as people have them: imported with what was decided told, or refused in one line."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vectrial.cli.dataset_view import dataset_object, truth_objects
from vectrial.datasets import library
from vectrial.datasets.ingest import Import, import_file
from vectrial.datasets.readers import ReaderOptions
from vectrial.datasets.readers.columns import MOST_COLUMNS
from vectrial.datasets.truth import truth_of
from vectrial.model.dataset import Dataset
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Eq, evaluate
from vectrial.model.metric import Metric

ROWS, DIM = 60, 4
RNG = np.random.default_rng(11)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
LISTS = VECTORS.tolist()
UTC = datetime.UTC


def vectors(kind: pa.DataType | None = None) -> pa.Array[Any]:
    return pa.array(LISTS, kind or pa.list_(pa.float32()))


def table(columns: Mapping[str, Any], *, embedding: Any = None) -> pa.Table:
    return pa.table({**columns, "embedding": vectors() if embedding is None else embedding})


def imported(path: Path, content: pa.Table, **options: Any) -> Dataset:
    """The dataset made of a Parquet file with this content."""
    file = path / "my.parquet"
    pq.write_table(content, file)
    return import_file(Import(file, metric=Metric.L2, queries=5, options=ReaderOptions(**options)))


def notes(dataset: Dataset) -> str:
    return "\n".join(dataset.provenance.notes)


# -- ids -------------------------------------------------------------------------------------

UUIDS = [uuid.UUID(int=at * 7919 + 5) for at in range(ROWS)]
OWN_IDS: dict[str, tuple[Any, list[Any]]] = {
    "text": (pa.array([f"doc-{at}" for at in range(ROWS)]), [f"doc-{at}" for at in range(ROWS)]),
    "large text": (pa.array([f"ü{at}" for at in range(ROWS)], pa.large_string()),
                   [f"ü{at}" for at in range(ROWS)]),
    "dictionary": (pa.array([f"d{at}" for at in range(ROWS)]).dictionary_encode(),
                   [f"d{at}" for at in range(ROWS)]),
    "uuid text": (pa.array([str(one) for one in UUIDS]), [str(one) for one in UUIDS]),
    "uuid bytes": (pa.array([one.bytes for one in UUIDS], pa.binary(16)),
                   [str(one) for one in UUIDS]),
    "uuid type": (pa.array([one.bytes for one in UUIDS], pa.uuid()), [str(one) for one in UUIDS]),
    "negative": (pa.array(range(-5, ROWS - 5)), list(range(-5, ROWS - 5))),
    "beyond 2^63": (pa.array([2**63 + at for at in range(ROWS)], pa.uint64()),
                    [str(2**63 + at) for at in range(ROWS)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "column"), [*((kind, "id") for kind in OWN_IDS), ("text", "vector"), ("text", "Key ü")]
)
def test_own_ids_that_are_no_ids_are_kept_and_shown(tmp_path: Path, kind: str, column: str) -> None:
    cells, shown = OWN_IDS[kind]
    dataset = imported(tmp_path, table({column: cells, "year": range(ROWS)}), ids=column)
    assert f"own ids '{column}' are kept as metadata" in notes(dataset)
    own = dataset.own_ids
    assert own is not None
    assert sorted(map(str, own.to_pylist())) == sorted(map(str, (shown[i] for i in dataset.ids)))
    first, *_ = truth_objects(dataset, truth_of(dataset, 3, None))
    expected = truth_of(dataset, 3, None).ids[0].tolist()
    assert first["ids"] == [shown[at] for at in expected]
    assert dataset_object(dataset)["facts"]["own_ids"] == column
    assert library.load("my").own_ids is not None


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(range(ROWS), pa.int32()),
        pa.array([3 * at + 100 for at in range(ROWS)], pa.uint64()),
        pa.array([2**62 - at for at in range(ROWS)]),
    ],
)
def test_integers_with_gaps_are_the_ids(tmp_path: Path, cells: pa.Array[Any]) -> None:
    dataset = imported(tmp_path, table({"id": cells}))
    assert set(dataset.ids.tolist()) <= set(cells.to_pylist())
    assert dataset.own_ids is None


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([0, *range(ROWS - 1)], "occurs at row 0 and at row 1"),
        (["a", "b", "a", *(f"x{at}" for at in range(ROWS - 3))], "at row 0 and at row 2"),
        ([0, None, *range(2, ROWS)], r"id 'id' is missing .*row 1"),
        (["a", None, *(f"x{at}" for at in range(ROWS - 2))], r"id 'id' is missing .*row 1"),
        ([float(at) for at in range(ROWS)], "'id' is double; ids are integers, text or UUIDs"),
        ([[at] for at in range(ROWS)], "'id' is list"),
    ],
)
def test_ids_that_cannot_be_used_are_refused(tmp_path: Path, cells: Any, said: str) -> None:
    with pytest.raises((DataError, UserError)) as refused:
        imported(tmp_path, table({"id": pa.array(cells)}), ids="id", vectors="embedding")
    shown = f"{refused.value} {refused.value.where}"
    assert re.search(said, shown), shown
    assert refused.value.remedy
    assert library.names() == ()


def test_ids_can_be_left_to_the_rows(tmp_path: Path) -> None:
    dataset = imported(tmp_path, table({"id": [7] * ROWS}), ids="none")
    assert set(dataset.ids.tolist()) < set(range(ROWS))
    assert dataset.metadata is not None
    assert dataset.metadata.column_names == ["id"]


# -- vectors ---------------------------------------------------------------------------------

GOOD_VECTORS: dict[str, Any] = {
    "float64": vectors(pa.list_(pa.float64())),
    "float16": pa.array([np.float16(one) for one in VECTORS], pa.list_(pa.float16())),
    "fixed": vectors(pa.list_(pa.float32(), DIM)),
    "large": vectors(pa.large_list(pa.float32())),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(VECTORS),
    "integers": pa.array((VECTORS * 10).astype(int).tolist(), pa.list_(pa.int8())),
}
CHANGED: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "ragged": (lambda rows: [*rows[:3], [1.0], *rows[4:]], "1 components where the first has 4"),
    "missing": (lambda rows: [*rows[:3], None, *rows[4:]], "the vector is missing"),
    "component missing": (lambda rows: [*rows[:3], [1.0, None, 2.0, 3.0], *rows[4:]],
                          "component 1 is missing"),
    "nan": (lambda rows: [*rows[:3], [1.0, float("nan"), 2.0, 3.0], *rows[4:]], "is nan"),
    "infinite": (lambda rows: [*rows[:3], [float("inf"), 0.0, 2.0, 3.0], *rows[4:]], "is inf"),
}  # fmt: skip
NO_VECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"embedding": [str(one) for one in LISTS]}, "'embedding' is string"),
    "bytes": ({"embedding": [one.tobytes() for one in VECTORS]}, "'embedding' is binary"),
    "columns": ({f"v{at}": VECTORS[:, at] for at in range(DIM)}, "4 columns are floats"),
    "nothing": ({"title": ["a"] * ROWS}, "it has 'title'"),
}


@pytest.mark.parametrize("kind", list(GOOD_VECTORS))
def test_vectors_of_any_layout_are_read(tmp_path: Path, kind: str) -> None:
    dataset = imported(tmp_path, table({}, embedding=GOOD_VECTORS[kind]))
    assert (dataset.rows, dataset.dim) == (ROWS - 5, DIM)
    assert "vectors are column 'embedding'" in notes(dataset)
    if kind != "integers":
        near = np.abs(dataset.vectors - VECTORS[dataset.ids]).max()
        assert near <= (5e-3 if kind == "float16" else 0)


@pytest.mark.parametrize("kind", list(CHANGED))
def test_a_vector_that_cannot_be_used_is_refused_with_its_row(tmp_path: Path, kind: str) -> None:
    change, said = CHANGED[kind]
    with pytest.raises(DataError, match=said) as refused:
        imported(tmp_path, table({}, embedding=pa.array(change(LISTS), pa.list_(pa.float32()))))
    assert "row 3" in str(refused.value.where)
    assert library.names() == ()


@pytest.mark.parametrize("kind", list(NO_VECTORS))
def test_what_are_no_vectors_is_refused_with_a_way_out(tmp_path: Path, kind: str) -> None:
    columns, said = NO_VECTORS[kind]
    with pytest.raises(DataError, match=said) as refused:
        imported(tmp_path, pa.table(columns))
    assert "docs/datasets.md" in str(refused.value.remedy)
    if "embedding" in columns:
        with pytest.raises(DataError, match="not lists of numbers"):
            imported(tmp_path, pa.table(columns), vectors="embedding")


def test_of_several_columns_of_vectors_the_message_names_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="more than one column of vectors") as refused:
        imported(tmp_path, pa.table({"title_emb": vectors(), "body_emb": vectors()}))
    assert "'title_emb', 'body_emb'" in str(refused.value.remedy)


# -- metadata --------------------------------------------------------------------------------

DAY = datetime.date(2024, 2, 29)
WHEN = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
#: Columns, each with a value of the first row as it is kept; None: left out.
METADATA: dict[str, tuple[pa.Array[Any], Any]] = {
    "vector": (pa.array([0.5, None] * 30), 0.5),
    "score": (pa.array(["high", None] * 30), "high"),
    "flag": (pa.array([True, None, False] * 20), True),
    "Year": (pa.array([2024] * ROWS, pa.uint16()), 2024),
    "year": (pa.array([7] * ROWS, pa.int8()), 7),
    "half": (pa.array(np.full(ROWS, 0.25, np.float16)), 0.25),
    "price €": (pa.array([decimal.Decimal("1.25")] * ROWS), 1.25),
    "day": (pa.array([DAY] * ROWS), (DAY - datetime.date(1970, 1, 1)).days),
    "when, with zone": (pa.array([WHEN] * ROWS, pa.timestamp("ms", "Europe/Berlin")),
                        int(WHEN.timestamp() * 1000)),
    "when": (pa.array([WHEN.replace(tzinfo=None)] * ROWS, pa.timestamp("us")),
             int(WHEN.timestamp() * 10**6)),
    "time of day": (pa.array([datetime.time(1)] * ROWS, pa.time32("ms")), 3_600_000),
    "took": (pa.array([datetime.timedelta(seconds=2)] * ROWS, pa.duration("ms")), 2000),
    "lang": (pa.array(["en", "de"] * 30).dictionary_encode(), "en"),
    "long text": (pa.array(["x" * 50_000] * ROWS), "x" * 50_000),
    "uuid": (pa.array([one.bytes for one in UUIDS], pa.uuid()), str(UUIDS[0])),
    "nested": (pa.array([{"a": 1}] * ROWS), None),
    "tags": (pa.array([["a", "b"]] * ROWS), None),
    "map": (pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())), None),
    "raw": (pa.array([b"\0\1"] * ROWS), None),
    "all missing": (pa.nulls(ROWS), None),
}  # fmt: skip


def test_metadata_of_any_type_is_kept_or_told(tmp_path: Path) -> None:
    columns = {name: cells for name, (cells, _) in METADATA.items()}
    dataset = imported(tmp_path, table({"id": range(ROWS), **columns}), vectors="embedding")
    assert dataset.metadata is not None
    kept = [name for name, (_, value) in METADATA.items() if value is not None]
    assert dataset.metadata.column_names == kept
    first = dataset.metadata.slice(int(np.flatnonzero(dataset.ids == 0)[0]), 1).to_pylist()[0]
    assert first == {name: METADATA[name][1] for name in kept}
    told = notes(dataset)
    for text in (
        "'day' (date32[day]) is kept as days since 1970",
        "'when, with zone' (timestamp[ms, tz=Europe/Berlin]) is kept as integers, in ms since 1970",
        "'price €' (decimal128(3, 2)) is kept as floats",
        "left out, of types that no filter reads: 'nested' (struct<a: int64>)",
    ):
        assert text in told
    keeps = evaluate(Eq("vector", 0.5), dataset.metadata)
    assert keeps.tolist() == [one % 2 == 0 for one in dataset.ids.tolist()]


def test_columns_of_one_kind_are_told_in_one_line(tmp_path: Path) -> None:
    many = {f"t{at}": pa.array([DAY] * ROWS) for at in range(300)}
    dataset = imported(tmp_path, table(many))
    (line,) = (one for one in dataset.provenance.notes if "days since 1970" in one)
    assert "and 292 more" in line


def test_too_many_columns_are_refused_unless_some_are_chosen(tmp_path: Path) -> None:
    many = MOST_COLUMNS + 1
    wide = table({f"c{at}": [1] * ROWS for at in range(many)})
    with pytest.raises(UserError, match=f"{many} columns could be metadata") as refused:
        imported(tmp_path, wide)
    assert "--keep" in str(refused.value.remedy)
    dataset = imported(tmp_path, wide, keep=("c7",))
    assert dataset.metadata is not None
    assert dataset.metadata.column_names == ["c7"]


# -- files -----------------------------------------------------------------------------------


def test_partitions_and_groups_of_one_row(tmp_path: Path) -> None:
    whole = table({"id": range(ROWS), "year": [1] * ROWS})
    for at, name in enumerate(("lang=en", "lang=de")):
        (tmp_path / "parts" / name).mkdir(parents=True)
        part = whole.slice(at * 30, 30)
        pq.write_table(part, tmp_path / "parts" / name / "0.parquet", row_group_size=1)
    dataset = import_file(Import(tmp_path / "parts", metric=Metric.L2, queries=5))
    assert sorted([*dataset.ids.tolist()]) == sorted(set(dataset.ids.tolist()))
    assert dataset.rows == ROWS - 5
    assert "only names of folders say it: 'lang'" in notes(dataset)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_are_refused(tmp_path: Path, rows: int) -> None:
    with pytest.raises((DataError, UserError), match=r"no vectors|cannot be held out"):
        imported(tmp_path, table({"a": range(ROWS)}).slice(0, rows))


@pytest.mark.parametrize("ids", ["text", "negative"])
def test_json_lines_with_own_ids(tmp_path: Path, ids: str) -> None:
    file = tmp_path / "rows.jsonl"
    shown = [f"doc {at}" if ids == "text" else at - 9 for at in range(ROWS)]
    lines = (
        json.dumps({"id": own, "vector": one, "score": at / 2, "a.b": None if at else "x"})
        for at, (own, one) in enumerate(zip(shown, LISTS, strict=True))
    )
    file.write_text("\n".join(lines))
    options = ReaderOptions(ids="id")
    dataset = import_file(Import(file, metric=Metric.L2, queries=5, options=options))
    assert dataset.own_ids is not None
    assert dataset.own_ids.to_pylist() == [shown[at] for at in dataset.ids.tolist()]
    assert dataset.metadata is not None
    assert dataset.metadata.column_names == ["id", "score", "a.b"]


def test_arrays_are_numbered(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS.astype(np.float64))
    dataset = import_file(Import(tmp_path / "v.npy", metric=Metric.L2, queries=5))
    assert dataset.dim == DIM
