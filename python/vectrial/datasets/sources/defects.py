"""Five kinds of defect, painted into pictures of textures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources.material import extra

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
