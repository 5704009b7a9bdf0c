"""Models are written once, whole, into a cache that may be empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vectrial.datasets.sources import onnx_graph
from vectrial.util import paths


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("onnxruntime")  # here: collecting the tests does not wait for it
    place = tmp_path / "downloads"
    monkeypatch.setattr(paths, "downloads_dir", lambda: place)
    return place


def identity(path: Path) -> None:
    """Write a model that returns its input."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, str(path))


def test_a_model_is_built_once_into_an_empty_cache() -> None:
    built = []

    def build(path: Path) -> None:
        built.append(path)
        identity(path)

    for _ in range(2):
        (out,) = onnx_graph.session("some-model/1", build).run(None, {"x": np.ones(2, np.float32)})
        assert out.tolist() == [1, 1]
    assert len(built) == 1


def test_an_interrupted_build_leaves_no_model(empty_cache: Path) -> None:
    def build(path: Path) -> None:
        path.write_bytes(b"half of a model")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        onnx_graph.session("some-model/1", build)
    assert not list(empty_cache.rglob("*.onnx"))
