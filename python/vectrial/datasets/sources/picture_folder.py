"""Pictures in folders, laid out as MVTec AD is.

CLASS/train/good/*.png     good ones: stored, but for some that are held out as normal queries
CLASS/test/good/*.png      good ones to ask with
CLASS/test/DEFECT/*.png    faulty ones to ask with
CLASS/ground_truth/        masks of the defects, which nothing here needs
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vectrial.datasets.sources import efficientnet
from vectrial.datasets.sources.inspection import Shot, decoded, material
from vectrial.datasets.sources.material import Material, extra, permutation
from vectrial.model.errors import DataError
from vectrial.model.labels import GOOD
from vectrial.model.progress import Progress
from vectrial.util.checksum import sha256_of

KINDS = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"})
LAYOUT = "CLASS/train/good/*.png, CLASS/test/good/*.png and CLASS/test/DEFECT/*.png"
_SEED = 5354  # pictures of MVTec AD


def found(folder: Path, hold_out: int) -> list[tuple[Path, Shot]]:
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
        chosen = set(permutation(len(learned), _SEED)[: min(hold_out, len(learned) // 3)].tolist())
        out += [(path, Shot(name, GOOD, at not in chosen)) for at, path in enumerate(learned)]
        test = folder / name / "test"
        defects = sorted(path for path in test.iterdir() if path.is_dir()) if test.is_dir() else []
        for defect in defects:
            out += [(path, Shot(name, defect.name, False)) for path in _pictures(defect)]
    return out


def made(folder: Path, hold_out: int, progress: Progress) -> Material:
    """1280 features of every picture, scaled to a square of 224 pixels.

    Raises:
        DataError: see `found`; or a file is not an image.
        SourceUnavailable, UserError: the network's package or the extra `data` is missing.
    """
    pictures = found(folder, hold_out)
    paths = [path for path, _ in pictures]

    def content(rows: slice) -> bytes:
        return b"whole, by area".join(bytes.fromhex(sha256_of(path)) for path in paths[rows])

    features = efficientnet.head_features(
        len(paths),
        lambda rows: np.stack(
            [decoded(path.read_bytes(), str(path), efficientnet.SIDE) for path in paths[rows]]
        ),
        progress,
        content=lambda rows: b"whole, by area".join(
            bytes.fromhex(sha256_of(path)) for path in paths[rows]
        ),
    )
    notes = (
        f"EfficientNet-Lite0 features of pictures reduced to {efficientnet.SIDE} ×"
        f" {efficientnet.SIDE} pixels, with onnxruntime {extra('onnxruntime').__version__} and"
        f" OpenCV {extra('cv2').__version__}",
        f"up to {hold_out} good pictures of each class to learn from were held out as queries",
    )
    return material(features, [shot for _, shot in pictures], notes)


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in KINDS)
