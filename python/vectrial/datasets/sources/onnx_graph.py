"""Writing an ONNX model from weights, so that no training framework is needed to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.sources.material import extra
from vectrial.util import paths


class Graph:
    """An ONNX graph built node by node; every value is known by its name."""

    def __init__(self, name: str) -> None:
        self._onnx = extra("onnx")
        self._name = name
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def constant(self, value: NDArray[Any] | np.float32) -> str:
        """Add a weight or constant; returns its name."""
        name = f"w{len(self._weights)}"
        # ascontiguousarray would make a scalar one-dimensional.
        array = np.asarray(value, order="C")
        self._weights.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        """A constant int64 vector."""
        return self.constant(np.array(values, dtype=np.int64))

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add one operator with one output; returns the output's name."""
        name = output or f"t{len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        )
        return name

    def save(
        self,
        path: Path,
        *,
        inputs: Sequence[tuple[str, type, Sequence[str | int]]],
        output: tuple[str, Sequence[str | int]],
        opset: int,
    ) -> None:
        """Check the model and write it; the file appears under its name only when complete.

        Args:
            inputs: name, numpy type and shape of each; a text in a shape is a free size.
            output: name and shape; float32.
        """
        helper = self._onnx.helper
        kinds: dict[Any, Any] = {
            np.float32: self._onnx.TensorProto.FLOAT,
            np.int64: self._onnx.TensorProto.INT64,
        }
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(name, kinds[kind], s) for name, kind, s in inputs],
            [helper.make_tensor_value_info(output[0], kinds[np.float32], output[1])],
            self._weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 9
        self._onnx.checker.check_model(model)
        self._onnx.save(model, str(path))


def session(recipe: str, build: Callable[[Path], None]) -> Any:
    """An inference session on the CPU for a model that `build` writes once for each recipe."""
    path = paths.downloads_dir() / "models" / f"{recipe.replace('/', '-')}.onnx"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")  # an interrupted build is no model
        build(partial)
        partial.replace(path)
    runtime = extra("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
