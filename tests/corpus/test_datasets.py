"""Files that cannot be imported are refused with one line, and nothing of them remains."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import data_files
import numpy as np
import pytest
from command_calls import Call

from vectrial.datasets import catalog, library
from vectrial.model.errors import DataError

Refused = Callable[..., str]


@pytest.mark.slow
@pytest.mark.parametrize("name", data_files.CASES)
def test_imports_that_cannot_be(refused: Refused, given: Path, tmp_path: Path, name: str) -> None:
    path, options = data_files.CASES[name](given)
    kept = sorted(given.rglob("*"))
    said = refused("data", "import", str(path), *options)
    assert "root:" not in said, "nothing of another file is shown"
    assert sorted(given.rglob("*")) == kept
    assert not Path("/tmp/vectrial-canary").exists()


@pytest.mark.parametrize(
    "name", ["zip: two datasets in Parquet", "zip: two datasets", "zip: two formats"]
)
def test_an_archive_with_two_datasets_names_both(refused: Refused, given: Path, name: str) -> None:
    path, options = data_files.CASES[name](given)
    said = refused("data", "import", str(path), *options)
    members = zipfile.ZipFile(path).namelist()
    assert all(member in said for member in members), said


GOOD = {
    "npy": lambda folder: data_files.CASES["npy: no metric"](folder)[0],
    "shards": lambda folder: _shards(folder),
    "missing neighbours": lambda folder: _missing(folder),
}


def _shards(folder: Path) -> Path:
    path = folder / "a.zip"
    members = {f"data/train-0000{n}-of-00002.parquet": data_files.whole for n in range(2)}
    data_files.zipped(path, {**members, "data/test-00000-of-00001.parquet": data_files.whole})
    return path


def _missing(folder: Path) -> Path:
    path = folder / "a.hdf5"
    neighbors = np.array([[0, -1], [1, -1], [2, 3]])
    data_files.hdf5(path, train=data_files.X, test=data_files.Q, neighbors=neighbors)
    return path


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_good_files(call: Call, given: Path, make: Callable[[Path], Path]) -> None:
    said = call("data", "import", str(make(given)), "--metric", "l2", "--name", "mine")
    assert said.code == 0, said
    assert library.names() == ("mine",)


def test_missing_neighbours_are_told(call: Call, given: Path) -> None:
    said = call("data", "import", str(_missing(given)), "--metric", "l2", "--name", "mine")
    assert "2 of its 6 neighbours are missing" in said.out


def test_a_name_of_the_catalogue_is_not_something_else(
    call: Call, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a library has other data under a pinned name, they are not measured as that."""
    path, _ = data_files.CASES["npy: no metric"](given)
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "is_made_here", lambda name: False)
        said = call("data", "import", str(path), "--metric", "l2", "--name", "glove-words-50")
    assert said.code == 0, said
    with pytest.raises(DataError, match="is not the catalogue's: its fingerprint is"):
        catalog.ensure("glove-words-50")
    with pytest.raises(DataError, match="vectrial data remove glove-words-50"):
        catalog.fetch(catalog.entry("glove-words-50"))


def test_a_filter_that_is_nested_too_deeply(call: Call, given: Path) -> None:
    path, _ = data_files.CASES["npy: no metric"](given)
    assert call("data", "import", str(path), "--metric", "l2", "--name", "mine").code == 0
    for depth in (60, 2000, 100_000):
        text = '{"not": ' * depth + '{"eq": {"a": 1}}' + "}" * depth
        said = call("data", "truth", "mine", "--filter", text)
        assert said.code == 2
        assert said.err.count("\n") == 1
