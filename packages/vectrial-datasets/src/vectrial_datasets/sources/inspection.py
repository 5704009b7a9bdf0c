"""Pictures of goods: good ones to store, good and faulty ones to ask with.

However the pictures came about, this makes a dataset of their features: the rows are those of good
pictures with their class; each query is asked under its own class. A folder of pictures is laid out
as MVTec AD is:

CLASS/train/good/*.png     good ones: stored, but for some that are held out as normal queries
CLASS/test/good/*.png      good ones to ask with
CLASS/test/DEFECT/*.png    faulty ones to ask with
CLASS/ground_truth/        masks of the defects, which nothing here needs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.sources.material import Material, extra, permutation
from vectrial.model.errors import DataError
from vectrial.model.filters import Eq
from vectrial.model.labels import ANOMALOUS, CLASS, DEFECT, GOOD, find_duplicates
from vectrial.model.progress import Progress
from vectrial.util.checksum import sha256_of
from vectrial_datasets.sources import efficientnet

_SEED = 1330  # vectors that the report stored


@dataclass(frozen=True)
class Shot:
    """One picture: its class, its defect (`GOOD` if it has none), and whether it is stored."""

    class_name: str
    defect: str
    stored: bool


def material(
    features: NDArray[np.float32], shots: Sequence[Shot], notes: Sequence[str] = ()
) -> Material:
    """The rows and queries of these pictures, each in a fixed random order, so that the first few
    are a sample of all classes. Queries that are exact copies of other queries, or of stored rows,
    are left out, and the notes say how many.

    Args:
        features: (n, d), one for each shot.

    Raises:
        DataError: a class of the queries has nothing stored, or either side is empty.
    """
    is_stored = np.array([shot.stored for shot in shots], dtype=bool)
    rows, query_rows = np.flatnonzero(is_stored), np.flatnonzero(~is_stored)
    rows = rows[permutation(len(rows), _SEED)]
    query_rows = query_rows[permutation(len(query_rows), _SEED)]
    _check(shots, rows, query_rows)
    row_classes = [shots[i].class_name for i in rows.tolist()]
    classes = [shots[i].class_name for i in query_rows.tolist()]
    twice, there = find_duplicates(features[query_rows], classes, features[rows], row_classes)
    query_rows = query_rows[~(twice | there)]
    known = [shots[i] for i in query_rows.tolist()]
    lines = [*notes, "features differ in the last digits between processors"]
    if twice.any() or there.any():
        lines.append(
            f"{int(twice.sum())} queries that are exact copies of others, and {int(there.sum())}"
            " of stored rows, were left out"
        )
    return Material(
        vectors=features[rows],
        queries=features[query_rows],
        metadata=pa.table({CLASS: pa.array(row_classes, pa.string())}),
        filters=[Eq(CLASS, shot.class_name) for shot in known],
        query_metadata=pa.table(
            {
                CLASS: pa.array([shot.class_name for shot in known], pa.string()),
                ANOMALOUS: pa.array([shot.defect != GOOD for shot in known], pa.bool_()),
                DEFECT: pa.array([shot.defect for shot in known], pa.string()),
            }
        ),
        notes=tuple(lines),
    )


def decoded(data: bytes, where: str, side: int) -> NDArray[np.uint8]:
    """An image file as a square of `side` pixels, (side, side, 3), red first.

    Raises:
        DataError: it is not an image.
    """
    cv2 = extra("cv2")
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise DataError("it is not an image that can be read", where=where, remedy="remove it")
    if image.shape[:2] != (side, side):
        image = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(image[..., ::-1], dtype=np.uint8)


def _check(shots: Sequence[Shot], rows: NDArray[np.int64], queried: NDArray[np.int64]) -> None:
    if not len(rows) or not len(queried):
        raise DataError(f"there are {len(rows)} pictures to store and {len(queried)} to ask with")
    stored = {shot.class_name for shot in shots if shot.stored}
    missing = sorted({shot.class_name for shot in shots} - stored)
    if missing:
        raise DataError(
            f"of class '{missing[0]}' there is nothing stored", remedy="good pictures to learn from"
        )
    faulty = [shot.defect for shot in shots if shot.stored and shot.defect != GOOD]
    if faulty:
        raise DataError(f"a picture with the defect '{faulty[0]}' is to be stored")


PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"})
LAYOUT = "CLASS/train/good/*.png, CLASS/test/good/*.png and CLASS/test/DEFECT/*.png"
_FOLDER_SEED = 5354  # pictures of MVTec AD


def list_pictures(folder: Path, hold_out: int) -> list[tuple[Path, Shot]]:
    """Every picture below `folder`, class after class, and what it shows.

    Args:
        hold_out: number of a class' good training pictures that become queries instead of stored
            rows, but never more than a third of them.

    Raises:
        DataError: the folder has another layout.
    """
    classes = sorted(path.name for path in folder.iterdir() if (path / "train" / GOOD).is_dir())
    if not classes:
        parent = (folder / "train" / GOOD).is_dir()
        raise DataError(
            "it has no folder CLASS/train/good",
            where=str(folder),
            remedy=f"give its parent, {folder.resolve().parent}" if parent else LAYOUT,
        )
    out: list[tuple[Path, Shot]] = []
    for name in classes:
        learned = _pictures(folder / name / "train" / GOOD)
        chosen = set(
            permutation(len(learned), _FOLDER_SEED)[: min(hold_out, len(learned) // 3)].tolist()
        )
        out += [(path, Shot(name, GOOD, at not in chosen)) for at, path in enumerate(learned)]
        test = folder / name / "test"
        defects = sorted(path for path in test.iterdir() if path.is_dir()) if test.is_dir() else []
        for defect in defects:
            out += [(path, Shot(name, defect.name, False)) for path in _pictures(defect)]
    return out


def folder_material(folder: Path, hold_out: int, progress: Progress) -> Material:
    """1280 features of every picture, scaled to a square of 224 pixels.

    Raises:
        DataError: see `list_pictures`; or a file is not an image.
        SourceUnavailable, UserError: the network's package or the extra `data` is missing.
    """
    pictures = list_pictures(folder, hold_out)
    paths = [path for path, _ in pictures]

    def content(rows: slice) -> bytes:
        return b"whole, by area".join(bytes.fromhex(sha256_of(path)) for path in paths[rows])

    features = efficientnet.head_features(
        len(paths),
        lambda rows: np.stack(
            [decoded(path.read_bytes(), str(path), efficientnet.SIDE) for path in paths[rows]]
        ),
        progress,
        content=content,
    )
    notes = (
        f"EfficientNet-Lite0 features of pictures reduced to {efficientnet.SIDE} ×"
        f" {efficientnet.SIDE} pixels, with onnxruntime {extra('onnxruntime').__version__} and"
        f" OpenCV {extra('cv2').__version__}",
        f"up to {hold_out} good pictures of each class to learn from were held out as queries",
    )
    return material(features, [shot for _, shot in pictures], notes)


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
