import json
import threading

import numpy as np
import pyarrow as pa
import pytest

from vectrial.datasets import library
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import And, Eq, Not, Range
from vectrial.model.metric import Metric
from vectrial.util import paths

SOURCE = Provenance(source="made here", licence="none", checksum="", notes=("a note",))
RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 8)).astype(np.float32)
Q = RNG.standard_normal((5, 8)).astype(np.float32)
TABLE = pa.table(
    {
        "n": pa.array([None, *range(49)], pa.int64()),
        "price": pa.array(np.linspace(0, 1, 50)),
        "colour": ["red", None, "grün", "", "blau"] * 10,
        "on": [True, None] * 25,
    }
)
FILTERS = (None, Eq("colour", "grün"), And((Range("n", gte=3), Not(Eq("on", True)))), None, None)


def saved(name: str = "set", **changes: object) -> Dataset:
    parts: dict[str, object] = {
        "metric": Metric.COSINE,
        "vectors": X,
        "queries": Q,
        "provenance": SOURCE,
        "ids": np.arange(50, dtype=np.int64)[::-1] * 3,
        "metadata": TABLE,
        "filters": FILTERS,
        "facts": {"duplicates": 0},
    }
    return library.save(name, **{**parts, **changes})  # type: ignore[arg-type]


def test_what_is_saved_is_loaded() -> None:
    saved()
    found = library.load("set")
    np.testing.assert_array_equal(found.vectors, X)
    np.testing.assert_array_equal(found.queries, Q)
    np.testing.assert_array_equal(found.ids, np.arange(50)[::-1] * 3)
    assert found.vectors.dtype == np.float32
    assert found.vectors.flags.c_contiguous
    assert found.metadata is not None
    assert found.metadata.equals(TABLE)
    assert found.filters == FILTERS
    assert (found.metric, found.provenance) == (Metric.COSINE, SOURCE)
    assert found.facts == {"duplicates": 0}
    library.verify("set")


def test_names_remove_and_nearest() -> None:
    assert library.names() == ()
    saved("glove-100")
    saved("sift-128")
    (paths.datasets_dir() / "stray").mkdir()
    assert library.names() == ("glove-100", "sift-128")
    with pytest.raises(UserError, match=r"did you mean 'glove-100'\?.*data import") as caught:
        library.load("glove100")
    assert caught.value.exit_code == 2
    library.remove("glove-100")
    assert library.names() == ("sift-128",)
    with pytest.raises(UserError, match="no dataset named"):
        library.remove("glove-100")


@pytest.mark.parametrize("name", ["", "truth", "..", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UserError, match="cannot be a dataset's name"):
        saved(name)


def test_blocks_and_chunks_do_not_change_the_fingerprint() -> None:
    whole = saved("whole")
    chunked = pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7, 1), TABLE.slice(8)])
    blocks = saved("blocks", vectors=iter([X[:3], X[3:4], X[4:]]), metadata=chunked)
    assert blocks.fingerprint == whole.fingerprint
    np.testing.assert_array_equal(blocks.vectors, X)


@pytest.mark.parametrize(
    "change",
    [
        {"metric": Metric.L2},
        {"vectors": X + 1},
        {"queries": Q[:4], "filters": FILTERS[:4]},
        {"ids": None},
        {"metadata": None, "filters": None},
        {"metadata": TABLE.rename_columns(["n", "price", "color", "on"])},
        {"metadata": TABLE.set_column(0, "n", pa.array(range(50), pa.int64()))},
        {"metadata": TABLE.set_column(2, "colour", pa.array(["re", "d"] * 25))},
        {"filters": None},
        {"filters": FILTERS[::-1]},
    ],
)
def test_any_change_of_content_changes_the_fingerprint(change: dict[str, object]) -> None:
    assert saved("a").fingerprint != saved("b", **change).fingerprint


def test_names_and_facts_do_not_change_the_fingerprint() -> None:
    a = saved("a")
    assert saved("b", facts={}).fingerprint == a.fingerprint
    assert library.annotate(a, {"new": 1}).fingerprint == a.fingerprint
    assert library.load("a").facts == {"new": 1}
    library.verify("a")


def test_subset_is_what_saving_its_rows_would_be() -> None:
    part = library.subset(saved(), 20)
    assert part.rows == 20
    assert part.name == "set"
    assert part.facts == {}
    again = saved(
        "again",
        vectors=X[:20],
        ids=np.arange(50, dtype=np.int64)[::-1][:20] * 3,
        metadata=TABLE.slice(0, 20),
    )
    assert part.fingerprint == again.fingerprint
    assert "first 20 of 50 rows" in part.provenance.notes[-1]


def test_vectors_alone_have_neither_metadata_nor_filters() -> None:
    whole = saved()
    bare = library.subset(whole, metadata=False)
    assert (bare.metadata, bare.filters, bare.rows) == (None, None, whole.rows)
    assert bare.fingerprint != whole.fingerprint
    assert bare.provenance.notes[-1] == f"without the metadata of {whole.name}"
    assert library.subset(bare, metadata=False) is bare


def test_subset_of_queries_is_what_saving_them_would_be() -> None:
    part = library.subset(saved(), 20, 3)
    assert len(part.queries) == 3
    assert part.filters == tuple(FILTERS[:3])
    again = saved(
        "again",
        vectors=X[:20],
        ids=np.arange(50, dtype=np.int64)[::-1][:20] * 3,
        metadata=TABLE.slice(0, 20),
        queries=Q[:3],
        filters=FILTERS[:3],
    )
    assert part.fingerprint == again.fingerprint
    assert len(part.provenance.notes) == len(again.provenance.notes) + 2
    with pytest.raises(UserError, match=f"queries.*a number from 1 to {len(Q)}"):
        library.subset(saved("other"), queries=len(Q) + 1)


def test_subset_of_all_rows_and_of_too_many() -> None:
    whole = saved()
    assert library.subset(whole, 50) is whole
    for rows in (0, 51):
        with pytest.raises(UserError, match="a number from 1 to 50"):
            library.subset(whole, rows)


def test_existing_is_replaced_only_when_asked() -> None:
    first = saved()
    with pytest.raises(UserError, match="exists already"):
        saved()
    second = saved(vectors=X * 2, replace_existing=True)
    assert second.fingerprint != first.fingerprint
    # The old mapping stays readable for whoever holds it.
    np.testing.assert_array_equal(first.vectors, X)
    assert [p.name for p in paths.datasets_dir().iterdir()] == ["set"]


def with_value(row: int, column: int, value: float) -> np.ndarray:
    out = X.astype(np.float64)
    out[row, column] = value
    return out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": with_value(7, 3, np.nan)}, "row 7: component 3 is nan"),
        ({"vectors": with_value(8, 0, np.inf)}, "row 8: component 0 is inf"),
        ({"vectors": with_value(9, 0, 1e300)}, r"row 9: component 0 is 1e\+300"),
        ({"vectors": X * (np.arange(50) != 11)[:, None]}, "row 11: the vector is zero"),
        ({"vectors": iter([X[:10], X[10:, :7]])}, "row 10: a vector has 7 components where 8"),
        ({"vectors": np.empty((0, 8), np.float32), "ids": None, "metadata": None}, "no vectors"),
        ({"queries": Q[:, :7]}, "queries, row 0: a vector has 7 components"),
        ({"queries": Q * 0}, "queries, row 0: the vector is zero"),
        ({"ids": np.zeros(50, np.int64)}, "id 0 occurs at row 0 and at row 1"),
        ({"ids": np.arange(50) - 4}, "row 0: id -4 is negative"),
        ({"ids": np.arange(49)}, "49 ids"),
        ({"ids": np.arange(51)}, "51 ids for 50 vectors"),
        ({"metadata": TABLE.slice(0, 49)}, "49 metadata rows|for 50 vectors"),
        ({"metadata": pa.table({"t": pa.array([b""] * 50)})}, "column 't' is binary"),
        ({"filters": FILTERS[:2]}, "2 filters for 5 queries"),
    ],
)
def test_bad_parts_leave_nothing_behind(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        saved(**change)
    assert list(paths.datasets_dir().iterdir()) == []


def test_zero_vectors_are_fine_outside_cosine() -> None:
    assert saved(metric=Metric.L2, vectors=X * 0).rows == 50


@pytest.mark.parametrize("metric", list(Metric))
def test_vectors_whose_squares_float32_does_not_hold(metric: Metric) -> None:
    """Every store would say that they are infinitely far from each other."""
    with pytest.raises(DataError, match=r"row 0: the vector has a length of 8.49e\+38, whose sq"):
        saved(metric=metric, vectors=np.full((50, 8), 3e38))
    assert saved(metric=metric, vectors=np.full((50, 8), 1e18)).rows == 50


def test_vectors_whose_squares_float32_loses_have_no_direction() -> None:
    short = with_value(7, 0, 0)
    short[7] = 1e-22
    with pytest.raises(
        DataError, match=r"row 7: the vector has a length of 2\.83e-22, whose square"
    ):
        saved(vectors=short)
    assert saved(metric=Metric.L2, vectors=short).rows == 50
    assert saved("tiny", vectors=X * 1e-16).rows == 50


def test_what_is_not_a_number_is_missing() -> None:
    """Stores treat NaN as null, as text or as an error: two of three were wrong for it."""
    prices = pa.array([float("nan"), 1.5, None, *[2.0] * 47])
    dataset = saved(metadata=pa.table({"price": prices, "n": range(50)}), filters=None)
    assert dataset.metadata is not None
    assert dataset.metadata.column("price").to_pylist()[:4] == [None, 1.5, None, 2.0]
    assert "1 value of 'price' is not a number (NaN), kept as missing" in dataset.provenance.notes


@pytest.mark.parametrize("file", ["vectors.npy", "metadata.arrow", "filters.jsonl"])
def test_verify_finds_a_changed_byte(file: str) -> None:
    saved(filters=(Eq("n", 1), *FILTERS[1:]))
    target = library.path("set") / file
    raw = bytearray(target.read_bytes())
    if file == "filters.jsonl":
        raw[raw.index(b"1")] = ord("2")
    else:
        raw[len(raw) // 2] ^= 1
    target.write_bytes(raw)
    with pytest.raises(DataError, match=r"damaged.*import it again"):
        library.verify("set")


def test_a_truncated_part_is_found_on_loading() -> None:
    saved()
    for file in ("vectors.npy", "ids.npy", "metadata.arrow", "filters.jsonl", "dataset.json"):
        target = library.path("set") / file
        raw = target.read_bytes()
        target.write_bytes(raw[: len(raw) // 2])
        with pytest.raises(DataError, match=file):
            library.load("set")
        target.write_bytes(raw)
    library.verify("set")


def test_a_layout_from_the_future_is_refused() -> None:
    saved()
    file = library.path("set") / "dataset.json"
    manifest = json.loads(file.read_bytes())
    file.write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(DataError, match="layout 99"):
        library.load("set")


@pytest.mark.parametrize(
    "change", [{"metric": "round"}, {"shapes": {}}, {"shapes": 7}, {"provenance": {"x": 1}}]
)
def test_a_manifest_that_makes_no_sense(change: dict[str, object]) -> None:
    saved()
    file = library.path("set") / "dataset.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **change}))
    with pytest.raises(DataError, match=r"dataset\.json.*damaged"):
        library.load("set")


def test_of_two_writers_of_one_name_the_second_is_refused() -> None:
    with library.Writer("set", Metric.L2, SOURCE) as slow:
        slow.add(X)
        first = saved()
        with pytest.raises(UserError, match="made in the meantime"):
            slow.finish(Q)
    assert library.load("set").fingerprint == first.fingerprint


def test_readers_never_see_a_half_written_dataset() -> None:
    seen: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for name in library.names():
                try:
                    library.load(name)
                except DataError as error:
                    seen.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(20):
        saved(f"set-{i}")
    done.set()
    reader.join()
    assert seen == []
    assert len(library.names()) == 20
