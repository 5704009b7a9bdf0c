"""The parts that packages are made into datasets with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.datasets.sources import debian, filter_sets, material, sift, words
from vectrial.datasets.sources.material import (
    extra,
    hold_out,
    in_hash_order,
    permutation,
    random_numbers,
)
from vectrial.datasets.sources.minilm import read_safetensors
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import evaluate, operators
from vectrial.model.progress import silent


def test_orders_are_the_same_everywhere() -> None:
    # Recorded: a different order would silently make other datasets under the same names.
    assert permutation(10, 7).tolist() == [8, 5, 0, 2, 1, 9, 7, 3, 6, 4]
    assert random_numbers(5, 7).tolist() == [9412, 537, 5699, 4307, 919]
    assert in_hash_order(["a", "b", "a", "c", "d"]) == [4, 3, 1, 0]


@given(st.integers(2, 300), st.data())
def test_hold_out_divides(count: int, data: st.DataObject) -> None:
    queries = data.draw(st.integers(1, count - 1))
    stays, taken = hold_out(count, queries, 3)
    assert len(taken) == queries
    assert sorted([*stays, *taken]) == list(range(count))
    assert (np.diff(stays) > 0).all()


@pytest.mark.slow
@given(st.lists(st.text(max_size=4), max_size=30), st.text(max_size=4))
def test_hash_order_holds_when_a_text_is_added(texts: list[str], more: str) -> None:
    before = [texts[row] for row in in_hash_order(texts)]
    assert len(before) == len(set(texts)) == len(set(before))
    longer = [*texts, more]
    after = [longer[row] for row in in_hash_order(longer)]
    assert [text for text in after if text in texts] == before


def test_missing_extra_names_its_command() -> None:
    with pytest.raises(UserError, match=r"pip install 'vectrial\[data\]'"):
        extra("no_such_module_here")


def test_blocks_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    data = np.arange(5_000, dtype=np.float32)
    computed: list[slice] = []

    def compute(rows: slice) -> Any:
        computed.append(rows)
        return np.stack([data[rows], -data[rows]], axis=1)

    def run(count: int, recipe: str = "r") -> Any:
        return material.computed(
            count,
            2,
            recipe=recipe,
            content=lambda rows: data[rows].tobytes(),
            compute=compute,
            progress=silent,
            what="",
        )

    first = run(5_000)
    assert len(computed) == 3
    np.testing.assert_array_equal(first[:, 1], -data)
    np.testing.assert_array_equal(run(5_000), first)
    np.testing.assert_array_equal(run(4_000), first[:4_000])
    assert len(computed) == 3
    run(2_000, "another model")
    assert len(computed) == 4


def test_safetensors(tmp_path: Path) -> None:
    tensor = np.arange(6, dtype="<f4").reshape(2, 3)
    header = json.dumps({"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + tensor.tobytes())
    np.testing.assert_array_equal(read_safetensors(path)["x"], tensor)
    path.write_bytes((1 << 40).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match="longer than the file"):
        read_safetensors(path)


def test_debian_entry() -> None:
    text = """Package: a
Version: 1
Section: contrib/libs
Maintainer: A Team <team@lists.Debian.org>
Homepage: https://github.com/a/a
Depends: b (>= 1), c | d
Installed-Size: 30
Tag: role::program, implemented-in::rust,
 implemented-in::c
Description: does
 much

Package: b
Description: less
"""
    first, second = map(debian.describe, debian.paragraphs(text))
    assert first["area"] == "contrib"
    assert first["section"] == "libs"
    assert first["maintainer_domain"] == "lists.debian.org"
    assert first["homepage_domain"] == "github.com"
    assert first["n_depends"] == 2
    assert first["installed_kib"] == 30
    assert first["implemented_in"] == "c"
    assert first["tags"] == "implemented-in::c,implemented-in::rust,role::program"
    assert first["description"] == "does"
    assert second["tags"] == second["role"] == second["homepage_domain"] == debian.NONE
    assert second["area"] == "main"
    assert second["n_depends"] == 0
    assert None not in [*first.values(), *second.values()], "not every store keeps missing values"


def test_words_are_described() -> None:
    table = words.describe(["the", "1,000", "well-known", "...", "ßoo"], np.array([0, 1, 2, 3, 4]))
    assert table.column("kind").to_pylist() == ["word", "number", "hyphenated", "other", "word"]
    assert table.column("initial").to_pylist() == ["t", "other", "w", "other", "other"]


def test_words_keep_their_order_and_queries_are_none_of_them() -> None:
    vectors = np.arange(800, dtype=np.float32).reshape(400, 2)
    vocabulary = [f"word{number}" for number in range(400)]
    made = words._material(vectors, vocabulary, 300, 20, filtered=True)
    assert isinstance(made.vectors, np.ndarray)
    assert made.metadata is not None
    ranks = made.metadata.column("rank").to_numpy()
    assert len(ranks) == 300
    assert (np.diff(ranks) > 0).all()
    assert ranks[-1] < 320
    np.testing.assert_array_equal(made.vectors, vectors[ranks])
    assert not set(made.queries[:, 0].tolist()) & set(made.vectors[:, 0].tolist())
    assert made.filters is not None
    assert len(made.filters) == len(made.queries) == 20


def _table(rows: int) -> pa.Table:
    random = np.random.RandomState(1)
    colours = random.choice(["red", "blue", "green"], rows, p=[0.7, 0.2, 0.1]).tolist()
    colours[0] = None
    return pa.table(
        {
            "random_number": pa.array(random_numbers(rows, 1)),
            "colour": pa.array(colours, pa.string()),
            "own": pa.array([f"row {row}" for row in range(rows)], pa.string()),
            "size": pa.array(random.randint(0, 1_000, rows)),
        }
    )


def test_filters_span_selectivities_and_always_keep_some_row() -> None:
    table = _table(12_000)
    base, asked = table.slice(0, 11_500), table.slice(11_500)
    filters, shares = filter_sets.per_query(
        base, asked, categories=("colour", "own"), numbers=("size",), seed=1
    )
    kept = [evaluate(where, base).mean() for where in filters]
    np.testing.assert_allclose(kept, shares)
    assert min(kept) > 0
    assert max(kept) > 0.89
    assert min(kept) < 0.0006
    assert sum(0.05 < share < 0.2 for share in kept) > 20
    used = frozenset[str]().union(*map(operators, filters))
    assert used >= {"eq", "in", "range", "and", "or", "not"}
    again, _ = filter_sets.per_query(
        base, asked, categories=("colour", "own"), numbers=("size",), seed=1
    )
    assert again == filters


def test_sift_of_images(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="the extra 'data' is not installed")
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(3):
        noise = np.random.RandomState(number).randint(0, 255, (600, 800), np.uint8)
        cv2.imwrite(str(folder / f"{number}.png"), noise)
    cv2.imwrite(str(folder / "0_400x300.png"), noise[:450, :600])
    (folder / "small.png").write_bytes(b"too small to be a picture")
    (folder / "link.png").symlink_to(folder / "0.png")
    images = sift.distinct_images(folder)
    assert [path.name for path in images] == ["0.png", "1.png", "2.png"]
    found = sift._detect(images, sift.SiftRecipe((), 400, 0.03, 1, 100), cv2, silent)
    assert [image for image, _ in found if len(image) == 0] == []
    described, owner, sizes = sift._stack(found, [0, 2])
    assert described.shape == (len(found[0][0]) + len(found[2][0]), 128)
    assert described.dtype == np.uint8
    assert set(owner.tolist()) == {0, 2}
    assert len(sizes) == len(described)


def test_held_out_images_give_equal_shares_and_are_not_the_large_ones() -> None:
    counts = [5_000, 10, 300, 0, 250, 90_000, 220, 400, 20_000]
    chosen = sift.held_out_images(counts, 3, 600)
    assert len(set(chosen)) == 3
    assert {counts[image] for image in chosen} <= {300, 250, 220, 400}
    with pytest.raises(DataError, match="4 images fit to be held out, 5 are needed"):
        sift.held_out_images(counts, 5, 1_000)
