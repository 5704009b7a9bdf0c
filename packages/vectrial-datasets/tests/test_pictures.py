"""Pictures that become datasets: folders as of MVTec AD, and textures with painted defects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vectrial.cli.main import main
from vectrial.datasets import catalog, library
from vectrial.model.errors import DataError
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT, GOOD
from vectrial.model.progress import silent
from vectrial_datasets.sources import efficientnet, inspection, textures
from vectrial_datasets.sources.inspection import Shot, material
from vectrial_datasets.sources.textures import KINDS, flawed

LEARNED, GOOD_ONES, FAULTY = 30, 4, 3


def coarse(
    count: int,
    images: Callable[[slice], np.ndarray],
    progress: object,
    *,
    content: Callable[[slice], bytes] | None = None,
) -> np.ndarray:
    """In place of the network: what a picture is made of, 8 × 8 patches of it."""
    assert content is None or content(slice(0, count))
    whole = images(slice(0, count)).astype(np.float32)
    patches = whole.reshape(count, 8, 28, 8, 28, 3).mean(axis=(2, 4, 5)).reshape(count, 64)
    return patches / np.linalg.norm(patches, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes; in the first, one test picture is a copy of another, and of a stored one."""
    import cv2  # here: collecting the tests does not wait for it

    monkeypatch.setattr(efficientnet, "head_features", coarse)
    rng = np.random.default_rng(1)
    root = tmp_path / "my goods"

    def write(path: Path, count: int) -> None:
        path.mkdir(parents=True)
        for at in range(count):
            assert cv2.imwrite(str(path / f"{at:03}.png"), rng.integers(0, 255, (40, 50, 3)))

    for name in ("bottle", "metal nut"):
        write(root / name / "train" / "good", LEARNED)
        write(root / name / "test" / "good", GOOD_ONES)
        for defect in ("broken", "stained"):
            write(root / name / "test" / defect, FAULTY)
            write(root / name / "ground_truth" / defect, FAULTY)
    (root / "bottle" / "train" / "good" / "readme.txt").write_text("not a picture")
    (root / "license.txt").write_text("not a class")
    return root


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["vectrial", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_a_folder_becomes_a_dataset(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("data", "pictures", str(folder), "--hold-out", "5", "--format", "jsonl")
    assert run(monkeypatch, *arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "my-goods"
    dataset = library.load("my-goods")
    assert dataset.rows == 2 * (LEARNED - 5)
    assert len(dataset.queries) == 2 * (5 + GOOD_ONES + 2 * FAULTY)
    assert dataset.metadata is not None
    assert dataset.query_metadata is not None
    known = dataset.query_metadata.to_pylist()
    for name in ("bottle", "metal nut"):
        assert dataset.metadata.column(CLASS).to_pylist().count(name) == LEARNED - 5
        own = [one for one in known if one[CLASS] == name]
        assert sum(not one[ANOMALOUS] for one in own) == 5 + GOOD_ONES
        assert sum(one[DEFECT] == "stained" for one in own) == FAULTY
    assert all(one[ANOMALOUS] == (one[DEFECT] != GOOD) for one in known)
    assert dataset.filters is not None
    assert [where.value for where in dataset.filters] == [one[CLASS] for one in known]  # type: ignore[union-attr]
    assert run(monkeypatch, *arguments) == 2
    assert "exists already" in capsys.readouterr().err
    library.verify("my-goods")
    part = library.subset(dataset, None, 7)
    assert part.query_metadata is not None
    assert part.query_metadata.to_pylist() == known[:7]


def test_copies_are_asked_once(folder: Path) -> None:
    test, train = folder / "bottle" / "test" / "good", folder / "bottle" / "train" / "good"
    (test / "copy.png").write_bytes((test / "000.png").read_bytes())
    (test / "stored.png").write_bytes((train / "003.png").read_bytes())
    other = folder / "metal nut" / "test" / "good" / "copy.png"
    other.write_bytes((test / "000.png").read_bytes())
    made = inspection.folder_material(folder, 0, silent)
    whole = 2 * (GOOD_ONES + 2 * FAULTY)
    assert len(made.queries) == whole + 1, "that of the other class is asked"
    assert any("1 queries that are exact copies of others, and 1 of" in n for n in made.notes)


def test_no_more_than_a_third_is_held_out(folder: Path) -> None:
    shots = [shot for _, shot in inspection.list_pictures(folder, 1000)]
    assert sum(shot.stored for shot in shots) == 2 * (LEARNED - LEARNED // 3)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: root / "bottle", "give its parent"),
        (lambda root: root / "bottle" / "test", "CLASS/train/good"),
        (lambda root: (root / "bottle/test/good/000.png").write_text("?") and root, "000.png"),
    ],
)
def test_another_layout_is_refused(folder: Path, spoil: Callable[[Path], Path], said: str) -> None:
    with pytest.raises(DataError) as error:
        inspection.folder_material(spoil(folder), 5, silent)
    assert said in str(error.value)


def test_a_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "data", "pictures", str(tmp_path / "nowhere")) == 2
    assert "there is no such folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shots", "said"),
    [
        ([Shot("a", GOOD, True)], "0 to ask with"),
        ([Shot("a", GOOD, True), Shot("b", GOOD, False)], "'b' there is nothing stored"),
        ([Shot("a", "dent", True), Shot("a", GOOD, False)], "'dent' is to be stored"),
    ],
)
def test_pictures_that_make_no_dataset(shots: list[Shot], said: str) -> None:
    with pytest.raises(DataError, match=said):
        material(np.eye(len(shots), 4, dtype=np.float32), shots)


def test_textures_are_drawn_alike_every_time_and_from_their_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, count in (("STORED", 6), ("GOOD_ONES", 3), ("FAULTY", 2 * len(KINDS))):
        monkeypatch.setattr(textures, name, count)
    rng = np.random.default_rng(2)
    halves = np.full((512, 512, 3), 60, np.uint8)
    halves[:, 256:] = 160
    noise = rng.integers(0, 255, (512, 512, 3)).astype(np.uint8)
    given = {"halves": halves, "noise": noise}
    drawn, shots = textures.drawn(given, silent)
    again, _ = textures.drawn(given, silent)
    np.testing.assert_array_equal(drawn, again)
    each = textures.STORED + textures.GOOD_ONES + textures.FAULTY
    assert len(drawn) == len(shots) == 2 * each
    assert sum(shot.stored for shot in shots) == 2 * textures.STORED
    assert {shot.defect for shot in shots} == {GOOD, *KINDS}
    for picture, shot in zip(drawn[:each], shots[:each], strict=True):
        if shot.defect == GOOD:  # a little brighter or darker
            assert abs(picture.mean() / (60 if shot.stored else 160) - 1) < 0.09


@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_changes_a_small_part(kind: str) -> None:
    rng = np.random.RandomState(3)
    picture = rng.randint(60, 200, (224, 224, 3)).astype(np.uint8)
    other = rng.randint(60, 200, (512, 512, 3)).astype(np.uint8)
    before = picture.copy()
    for _ in range(20):
        changed = (flawed(picture, kind, other, rng) != before).any(axis=2).mean()
        assert 0 < changed < 0.15
    np.testing.assert_array_equal(picture, before)


def test_the_entries_say_what_they_bring() -> None:
    for name in ("texture-defects-384", "texture-defects-1280", "fashion-outliers-2048"):
        entry = catalog.entry(name)
        assert {field.name for field in entry.query_fields} == {CLASS, ANOMALOUS, DEFECT}
        assert entry.filtered
        assert entry.operators == {"eq"}
        assert not entry.can_be_cut
