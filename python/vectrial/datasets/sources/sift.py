"""SIFT descriptors (Lowe 2004) of desktop backgrounds: 128 numbers from 0 to 255, under L2."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.sources.material import Material, at_most, extra, permutation
from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder

DIM = 128
MATE, GNOME, LOMIRI_16, LOMIRI_20, UKUI, PLASMA = (
    Package(Client.APT, name, version, sha256, megabytes)
    for name, version, megabytes, sha256 in (
        ("mate-backgrounds", "1.26.0-1", 46.6,
         "7bf4c2209f34b4f61ba6d24c8b58c28b361e82e4b943aae6d42c030169af9e04"),
        ("gnome-backgrounds", "43.1-1", 32.5,
         "a670dea21572652127d6e55f9cdb3a226d0037854fdbfd037003c7d00ee0dc4e"),
        ("lomiri-wallpapers-16.04", "20.04.0-2", 15.8,
         "a99ff6a3bfe451e4cc0682ecb3cc82e71740626d59e4845ae34a0a0e45421eab"),
        ("lomiri-wallpapers-20.04", "20.04.0-2", 11.4,
         "d44e89b8473aafe64a5b678f014862dc31335aaaf18665c544d985d854f1a709"),
        ("ukui-wallpapers", "20.04.3-1.1", 21.5,
         "6d49be70152e6d603163458e177e501deb0be8f2916389ccbfcf59b0d7fc0262"),
        ("plasma-workspace-wallpapers", "4:5.27.5-2", 94.0,
         "32cd18b71c8c938a18b3b351f217c02ac590e323caa3cf322fbb875ce8892f8b"),
    )
)  # fmt: skip
_KINDS = (".jpg", ".jpeg", ".png", ".webp")
_SMALLEST_FILE = 150_000  # below are thumbnails and flat gradients
_SIZE_IN_NAME = re.compile(r"_?\d+x\d+")
_SEED = 2004
#: Folders that say nothing of the image in them.
_NO_NAMES = frozenset(
    {"usr", "share", "backgrounds", "wallpapers", "contents", "images", "images_dark"}
)


@dataclass(frozen=True)
class SiftRecipe:
    """A selection of images, and the parameters of the detection.

    longest_side: larger images are reduced to this size, in pixels.
    contrast: SIFT's contrast threshold; lower finds more.
    held_out: images that give the queries, an equal share each; none of theirs is a row.
    rows: default number of rows.
    """

    packages: tuple[Package, ...]
    longest_side: int
    contrast: float
    held_out: int
    rows: int


#: 222 MB and 230 CPU seconds.
FULL = SiftRecipe((MATE, GNOME, LOMIRI_16, LOMIRI_20, UKUI, PLASMA), 3840, 0.025, 10, 1_000_000)
#: 49 MB and 25 CPU seconds.
QUICK = SiftRecipe((LOMIRI_16, LOMIRI_20, UKUI), 1920, 0.03, 5, 100_000)


def descriptors(recipe: SiftRecipe, rows: int | None, queries: int, progress: Progress) -> Material:
    """Descriptors in a fixed random order, so that the first rows are a sample of all images."""
    cv2 = extra("cv2")
    roots = [unpacked_folder(package, progress) for package in recipe.packages]
    images = [(path, _label(path, root)) for root in roots for path in distinct_images(root)]
    found = _detect([path for path, _ in images], recipe, cv2, progress)
    query_images = held_out_images([len(points) for points, _ in found], recipe.held_out, queries)
    rest = [image for image in range(len(images)) if image not in query_images]
    base, base_image, base_size = _stack(found, rest)
    order = permutation(len(base), _SEED)[: at_most(len(base), rows or recipe.rows, "the images")]
    labels = pa.array([label for _, label in images], pa.string())
    metadata = pa.table(
        {
            "image": labels.take(base_image[order]),
            "size_px": pa.array(base_size[order].astype(np.float64)),
        }
    )
    return Material(
        vectors=base[order],
        queries=_queries([found[image][0] for image in query_images], queries),
        metadata=metadata,
        notes=(
            f"SIFT of OpenCV {cv2.__version__}; other versions find slightly other points",
            f"{len(base):,} descriptors of {len(rest)} images;"
            f" queries in equal shares from {len(query_images)} others",
        ),
    )


def held_out_images(counts: Sequence[int], wanted: int, queries: int) -> list[int]:
    """Images to take the queries from, given how many descriptors each has.

    Each has enough for an equal share of the queries, and no more than a hundredth of all
    descriptors: the few images that make up most of the rows are kept.

    Raises:
        DataError: there are not enough such images.
    """
    share = -(-queries // wanted)
    most = max(share, sum(counts) // 100)
    order = permutation(len(counts), _SEED).tolist()
    fit = [image for image in order if share <= counts[image] <= most]
    if len(fit) < wanted:
        raise DataError(f"{len(fit)} images fit to be held out, {wanted} are needed")
    return sorted(fit[:wanted])


def _queries(held_out: Sequence[NDArray[np.uint8]], queries: int) -> NDArray[np.uint8]:
    share = -(-queries // len(held_out))
    chosen = [points[permutation(len(points), _SEED)[:share]] for points in held_out]
    together = np.concatenate(chosen)
    return together[permutation(len(together), _SEED)[:queries]]


def _label(path: Path, root: Path) -> str:
    """The name of an image: its path below the share of backgrounds, without sizes."""
    parts = (*path.relative_to(root).parts[:-1], path.stem)
    named = [part for part in parts if part not in _NO_NAMES]
    return _SIZE_IN_NAME.sub("", "/".join(named)).strip("/")


def distinct_images(folder: Path) -> list[Path]:
    """The largest file of each image below a folder, ordered by path.

    One picture often comes in several sizes, named by them, and in a dark folder beside the light
    one: only one of these is taken, lest near-copies fill the dataset.
    """
    best: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.suffix.lower() not in _KINDS:
            continue
        if path.stat().st_size < _SMALLEST_FILE:
            continue
        key = _SIZE_IN_NAME.sub("", str(path.relative_to(folder)).replace("images_dark", "images"))
        if key not in best or path.stat().st_size > best[key].stat().st_size:
            best[key] = path
    return [best[key] for key in sorted(best)]


Found = tuple[NDArray[np.uint8], NDArray[np.float32]]


def _detect(
    images: Sequence[Path], recipe: SiftRecipe, cv2: Any, progress: Progress
) -> list[Found]:
    """Descriptors and sizes of each image, a few images at a time."""
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    found: list[Found] = []
    with ThreadPoolExecutor(workers) as pool:
        for one in pool.map(lambda path: _detect_one(path, recipe, cv2), images):
            found.append(one)
            progress(len(found), len(images), "finding SIFT points (images)")
    return found


def _detect_one(path: Path, recipe: SiftRecipe, cv2: Any) -> Found:
    image = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if image is None:
        return np.empty((0, DIM), np.uint8), np.empty(0, np.float32)
    longest = max(image.shape)
    if longest > recipe.longest_side:
        scale = recipe.longest_side / longest
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    points, described = cv2.SIFT_create(contrastThreshold=recipe.contrast).detectAndCompute(
        image, None
    )
    if described is None:
        return np.empty((0, DIM), np.uint8), np.empty(0, np.float32)
    sizes = np.array([point.size for point in points], dtype=np.float32)
    return described.astype(np.uint8), sizes


def _stack(
    found: Sequence[Found], images: Sequence[int]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float32]]:
    described = np.concatenate([found[image][0] for image in images])
    sizes = np.concatenate([found[image][1] for image in images])
    counts = [len(found[image][1]) for image in images]
    return described, np.repeat(np.array(images, dtype=np.int64), counts), sizes
