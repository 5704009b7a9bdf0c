"""Photographed textures, whole and with defects painted into them: a stand-in for MVTec AD.

Twelve classes, three from scikit-image and nine from OpenArena's textures. Crops of the left half
of a texture are stored; those of the right half are asked, as they are or with one of five kinds of
defect. The defects are synthetic, and easier or harder than real ones, nobody knows by how much:
figures on this set say what a store loses against exact search, and nothing of MVTec AD.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources.material import Material, extra
from vectrial.model.labels import GOOD
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder
from vectrial_datasets.sources import efficientnet, vit
from vectrial_datasets.sources.inspection import Shot, decoded, material

Picture = NDArray[np.uint8]
_Paint = Callable[[Picture, Picture, np.random.RandomState], Picture]


def flawed(picture: Picture, kind: str, other: Picture, rng: np.random.RandomState) -> Picture:
    """A copy of a picture (h, w, 3) with a defect a tenth to a fifth of its width across. other: a
    texture from which pieces are taken."""
    return _PAINTS[kind](picture.copy(), other, rng)


def _place(picture: Picture, rng: np.random.RandomState) -> tuple[int, int, int]:
    """A point away from the edges, and a radius: pixels (x, y, r)."""
    height, width = picture.shape[:2]
    margin = width // 6
    x, y = rng.randint(margin, width - margin), rng.randint(margin, height - margin)
    return int(x), int(y), int(rng.randint(width // 22, width // 9))


def _colour(picture: Picture, factor: float) -> tuple[int, int, int]:
    red, green, blue = np.clip(picture.mean(axis=(0, 1)) * factor, 0, 255).astype(int).tolist()
    return red, green, blue


def _scratch(picture: Picture, other: Picture, rng: np.random.RandomState) -> Picture:
    """A thin broken line, darker or brighter than the texture."""
    cv2 = extra("cv2")
    x, y, _ = _place(picture, rng)
    steps = np.column_stack([rng.randint(-5, 25, 5), rng.randint(-20, 21, 5)])
    points = np.cumsum(np.vstack([[x, y], steps]), axis=0).astype(np.int32)
    colour = _colour(picture, (0.35, 1.7)[rng.randint(2)])
    cv2.polylines(picture, [points], False, colour, int(rng.randint(1, 4)), cv2.LINE_AA)
    return picture


def _stain(picture: Picture, other: Picture, rng: np.random.RandomState) -> Picture:
    """A soft spot of another colour that the texture shows through."""
    cv2 = extra("cv2")
    x, y, r = _place(picture, rng)
    spot = np.zeros(picture.shape[:2], np.float32)
    axes = (r, max(1, int(r * rng.uniform(0.5, 1))))
    cv2.ellipse(spot, (x, y), axes, float(rng.uniform(0, 180)), 0, 360, 1, -1)
    opaque = cv2.GaussianBlur(spot, (0, 0), 4)[..., None] * rng.uniform(0.35, 0.6)
    mixed = picture * (1 - opaque) + rng.randint(0, 256, 3) * opaque
    return np.asarray(np.clip(mixed, 0, 255), dtype=np.uint8)


def _hole(picture: Picture, other: Picture, rng: np.random.RandomState) -> Picture:
    """A dark polygon with eight uneven corners."""
    cv2 = extra("cv2")
    x, y, r = _place(picture, rng)
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    far = r * rng.uniform(0.4, 1, 8)
    corners = np.column_stack([x + far * np.cos(angles), y + far * np.sin(angles)])
    cv2.fillPoly(picture, [corners.astype(np.int32)], _colour(picture, 0.25), cv2.LINE_AA)
    return picture


def _patch(picture: Picture, other: Picture, rng: np.random.RandomState) -> Picture:
    """A piece of another texture, turned."""
    x, y, _ = _place(picture, rng)
    height, width = (int(side) for side in rng.randint(16, 48, 2))
    piece = np.rot90(other[50 : 50 + width, 50 : 50 + height])
    y, x = min(y, picture.shape[0] - height), min(x, picture.shape[1] - width)
    picture[y : y + height, x : x + width] = piece
    return picture


def _blur(picture: Picture, other: Picture, rng: np.random.RandomState) -> Picture:
    """A square out of focus."""
    cv2 = extra("cv2")
    x, y, r = _place(picture, rng)
    part = (slice(max(y - r, 0), y + r), slice(max(x - r, 0), x + r))
    picture[part] = cv2.GaussianBlur(np.ascontiguousarray(picture[part]), (0, 0), 5)
    return picture


_PAINTS: Mapping[str, _Paint] = {
    "scratch": _scratch,
    "stain": _stain,
    "hole": _hole,
    "patch": _patch,
    "blur": _blur,
}
#: The kinds, in a fixed order.
KINDS = tuple(_PAINTS)


#: Number of pictures, a slice of them (n, 224, 224, 3), progress → unit vectors (number, dim).
Features = Callable[[int, Callable[[slice], NDArray[np.uint8]], Progress], NDArray[np.float32]]
SCIKIT_IMAGE = Package(
    Client.PIP,
    "scikit-image",
    "0.26.0",
    "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af",
    13.7,
    python="3.11",
    platform="manylinux_2_28_x86_64",
)
OPENARENA = Package(
    Client.APT,
    "openarena-081-textures",
    "0.8.5split-14",
    "72bf05abd5286a1523b56ca04e25bceb775813d747f92ecd20749d512361a81f",
    93.7,
)
_PHOTOGRAPHS = Path("skimage") / "data"
_PK3 = Path("usr/share/games/openarena/baseoa/pak4-textures.pk3")
#: Class → its file, in scikit-image's data or, below `textures/`, in OpenArena's archive.
_FILES: Mapping[str, str] = {
    "brick": "brick.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "concrete": "proto2/concrete02.jpg",
    "bluemetal": "base_wall/bluemetal2.jpg",
    "wood": "acc_dm5/wood01.jpg",
    "stone": "clown/stone_tile.jpg",
    "plate": "proto2/tin_floor04ach.jpg",
    "mosstile": "acc_dm5/stntiles_moss2.jpg",
    "soil": "acc_dm5/mud02.jpg",
    "clang": "evil8_floor/e8clangfloor.jpg",
    "tile": "base_floor/tilefloor7_ow.jpg",
}
#: Of each class: stored, good ones to ask with, and faulty ones.
STORED, GOOD_ONES, FAULTY = 111, 76, 36
CLASSES = len(_FILES)
#: Pixels: of a texture, of a picture, and of the least and greatest crop that makes one.
_TEXTURE, SIDE, _CROP = 512, efficientnet.SIDE, (140, 180)
_SEED = 7


def made(rows: int | None, queries: int, progress: Progress) -> Material:
    """1280 features of every picture; `rows` and `queries` refer to the whole dataset."""
    return _made(efficientnet.head_features, progress)


def made_by_transformer(rows: int | None, queries: int, progress: Progress) -> Material:
    """384 features of a vision transformer for the same pictures."""
    return _made(vit.features, progress)


def _made(features: Features, progress: Progress) -> Material:
    pictures, shots = drawn(_textures(progress), progress)
    return material(
        features(len(pictures), lambda rows: pictures[rows], progress),
        shots,
        (
            f"{CLASSES} photographed textures; defects ({', '.join(KINDS)}) are synthetic: not"
            " comparable with figures on MVTec AD",
            "crops of a texture overlap; stored ones are of its left half, the others of its right",
            f"pictures drawn with OpenCV {extra('cv2').__version__}, features with onnxruntime"
            f" {extra('onnxruntime').__version__}",
        ),
    )


def drawn(
    textures: Mapping[str, NDArray[np.uint8]], progress: Progress
) -> tuple[NDArray[np.uint8], list[Shot]]:
    """Pictures (n, 224, 224, 3) of every texture (512, 512, 3), and what each shows; one seed per
    class."""
    names = list(textures)
    shots: list[Shot] = []
    each = STORED + GOOD_ONES + FAULTY
    out = np.empty((len(names) * each, SIDE, SIDE, 3), dtype=np.uint8)
    for at, name in enumerate(names):
        progress(at, len(names), "drawing pictures")
        rng = np.random.RandomState([_SEED, at])
        other = textures[names[(at + 3) % len(names)]]
        for number in range(each):
            kind = KINDS[number % len(KINDS)] if number >= STORED + GOOD_ONES else GOOD
            stored = number < STORED
            picture = _crop(textures[name], rng, left=stored)
            if kind != GOOD:
                picture = flawed(picture, kind, other, rng)
            out[len(shots)] = picture
            shots.append(Shot(name, kind, stored))
    return out, shots


def _crop(
    texture: NDArray[np.uint8], rng: np.random.RandomState, *, left: bool
) -> NDArray[np.uint8]:
    """A random square in one half, possibly mirrored, a little brighter or darker."""
    half = _TEXTURE // 2
    side = int(rng.randint(_CROP[0], _CROP[1] + 1))
    y = int(rng.randint(0, _TEXTURE - side + 1))
    x = int(rng.randint(0, half - side + 1)) + (0 if left else half)
    square = texture[y : y + side, x : x + side]
    if rng.uniform() < 0.5:
        square = square[:, ::-1]
    cv2 = extra("cv2")
    large = cv2.resize(np.ascontiguousarray(square), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    bright = large.astype(np.float32) * rng.uniform(0.92, 1.08)
    return np.asarray(np.clip(bright, 0, 255), dtype=np.uint8)


def _textures(progress: Progress) -> dict[str, NDArray[np.uint8]]:
    """Every texture in colour, 512 pixels wide and high."""
    photographs = unpacked_folder(SCIKIT_IMAGE, progress) / _PHOTOGRAPHS
    archive = unpacked_folder(OPENARENA, progress) / _PK3
    found = {}
    with zipfile.ZipFile(archive) as packed:
        for name, file in _FILES.items():
            inside = "/" in file
            data = packed.read(f"textures/{file}") if inside else (photographs / file).read_bytes()
            found[name] = decoded(data, file, _TEXTURE)
    return found
