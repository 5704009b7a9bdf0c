"""Truth of a dataset: under filters, of its first rows, and kept by content."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vectrial.datasets import truth as module
from vectrial.datasets.exact import exact_topk
from vectrial.datasets.truth import truth_of
from vectrial.model.dataset import Dataset, Provenance, Truth
from vectrial.model.errors import UserError
from vectrial.model.filters import Eq, Filter, Range, evaluate
from vectrial.model.metric import Metric
from vectrial.util import paths


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(1)
    rows, queries = rng.standard_normal((500, 6)), rng.standard_normal((12, 6))
    return Dataset(
        name="small",
        metric=Metric.L2,
        vectors=rows.astype(np.float32),
        ids=np.arange(500) + 1000,
        queries=queries.astype(np.float32),
        fingerprint="abc",
        provenance=Provenance("made here", "none", ""),
        metadata=pa.table({"n": np.arange(500) % 10, "flag": np.arange(500) % 2 == 0}),
    )


def kept() -> list[Path]:
    return sorted((paths.datasets_dir() / "truth").iterdir())


def same(a: Truth, b: Truth) -> bool:
    names = ("ids", "distances", "available", "accept_offsets", "accept_ids")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def test_computed_once(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    first = truth_of(dataset, 5)
    assert same(first, exact_topk(dataset.vectors, dataset.ids, dataset.queries, Metric.L2, 5))
    assert len(kept()) == 1
    monkeypatch.setattr(module, "_computed", lambda *_: pytest.fail("computed again"))
    again = truth_of(dataset, 5)
    assert same(first, again)
    assert again.k == 5


def test_each_question_has_its_own_file(dataset: Dataset) -> None:
    asked = [
        truth_of(dataset, 5),
        truth_of(dataset, 6),
        truth_of(dataset, 5, Eq("n", 1)),
        truth_of(dataset, 5, Eq("flag", True)),
        truth_of(dataset, 5, rows=100),
        truth_of(dataset, 5, [Eq("n", 1), *[None] * 11]),
    ]
    assert len(kept()) == len(asked)
    assert all(not same(a, b) for i, a in enumerate(asked) for b in asked[:i])
    # One filter for all is the same question as that filter for each.
    assert same(truth_of(dataset, 5, [Eq("n", 1)] * 12), asked[2])
    assert len(kept()) == len(asked)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "text"])
def test_a_damaged_file_is_computed_again(dataset: Dataset, damage: str) -> None:
    right = truth_of(dataset, 5)
    (path,) = kept()
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "flipped":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "empty":
            path.write_bytes(b"")
        case "other":  # whole, but the answer to another question
            truth_of(dataset, 6)
            (other,) = set(kept()) - {path}
            path.write_bytes(other.read_bytes())
        case "text":
            path.write_text("not an archive")
    with pytest.warns(UserWarning, match="damaged .* computing the truth again"):
        assert same(truth_of(dataset, 5), right)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(truth_of(dataset, 5), right)


def test_pickles_are_never_opened(dataset: Dataset) -> None:
    right = truth_of(dataset, 5)
    (path,) = kept()
    np.savez(path, **dict.fromkeys(["digest", *module._ARRAYS], np.array([{}], dtype=object)))
    with pytest.warns(UserWarning, match="damaged"):
        assert same(truth_of(dataset, 5), right)


def test_nothing_is_left_when_writing_fails(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        truth_of(dataset, 5)
    assert kept() == []


def test_a_filter_for_each_query(dataset: Dataset) -> None:
    # Eq("n", 1) == Eq("n", True) in Python; they are not one filter here.
    each: list[Filter | None] = [
        Eq("n", 1), Eq("flag", True), Range("n", gte=3), None, Eq("n", 99), Eq("n", 1),
    ] * 2  # fmt: skip
    found = truth_of(dataset, 30, each)
    assert dataset.metadata is not None
    for i, where in enumerate(each):
        mask = None if where is None else evaluate(where, dataset.metadata)
        query = dataset.queries[i : i + 1]
        one = exact_topk(dataset.vectors, dataset.ids, query, Metric.L2, 30, mask=mask)
        np.testing.assert_array_equal(found.ids[i], one.ids[0])
        np.testing.assert_array_equal(found.distances[i], one.distances[0])
        start, stop = found.accept_offsets[i : i + 2]
        np.testing.assert_array_equal(found.accept_ids[start:stop], one.accept_ids)
    assert found.available.tolist() == [30, 30, 30, 30, 0, 30] * 2


def test_only_the_first_rows(dataset: Dataset) -> None:
    found = truth_of(dataset, 20, Eq("n", 3), rows=100)
    assert set(found.available) == {10}
    assert set(found.ids.ravel()) == {-1, *range(1003, 1100, 10)}


def test_what_cannot_be_asked(dataset: Dataset) -> None:
    with pytest.raises(UserError, match="501 rows of a dataset that has 500"):
        truth_of(dataset, 5, rows=501)
    with pytest.raises(UserError, match="column 'colour'"):
        truth_of(dataset, 5, Eq("colour", "red"))
    with pytest.raises(UserError, match="3 filters for 12 queries"):
        truth_of(dataset, 5, [None] * 3)


def test_a_truth_goes_to_another_machine(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = truth_of(dataset, 5)
    truth_of(dataset, 6, rows=100)
    sent = {name: path.read_bytes() for name, path in module.files_of(dataset.fingerprint).items()}
    assert len(sent) == 2
    assert module.files_of("another") == {}
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "elsewhere"))
    for name, content in sent.items():
        module.FilesOnDisk().put(name, content)
    monkeypatch.setattr(module, "_computed", lambda *_: pytest.fail("computed again"))
    assert same(truth_of(dataset, 5), here)
