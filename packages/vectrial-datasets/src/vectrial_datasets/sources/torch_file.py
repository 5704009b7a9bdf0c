"""Tensors out of a PyTorch checkpoint of the older format, without PyTorch.

Layout: pickles of a magic number, the version, facts of the machine and the state; then a
pickled list of storage keys, and for each an int64 count with its elements. The unpickler
knows four names and refuses every other, so that nothing in the file can run.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.errors import DataError

_STORAGES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "LongStorage": np.dtype("<i8"),
}

#: What the unpickler raises on damaged input.
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class _View:
    """A tensor before its storage was read; offset and strides count elements."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Tensors of a file by name.

    Raises:
        DataError: not such a file, or it holds anything but tensors.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size)
    except _DAMAGE as error:
        raise DataError(f"not a checkpoint that can be read: {error}", where=str(path)) from error


def _read(file: IO[bytes], size: int) -> dict[str, NDArray[Any]]:
    for _ in range(3):
        _Unpickler(file).load()
    unpickler = _Unpickler(file)
    state: dict[str, _View] = unpickler.load()
    storages = {}
    for key in _Unpickler(file).load():
        count = int.from_bytes(file.read(8), "little")
        kind = unpickler.kinds[key]
        if count * kind.itemsize > size - file.tell():
            raise EOFError(f"storage {key} is cut short")
        storages[key] = np.frombuffer(file.read(count * kind.itemsize), dtype=kind)
    return {name: _tensor(storages[view.storage], view) for name, view in state.items()}


def _tensor(storage: NDArray[Any], view: _View) -> NDArray[Any]:
    last = view.offset + sum(
        (size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)
    )
    if min(view.shape, default=1) < 1 or view.offset < 0 or last >= len(storage):
        raise ValueError("a tensor reaches beyond its storage")
    strides = [stride * storage.itemsize for stride in view.strides]
    return np.lib.stride_tricks.as_strided(storage[view.offset :], view.shape, strides).copy()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.kinds: dict[str, np.dtype[Any]] = {}

    def find_class(self, module: str, name: str) -> Callable[..., Any] | str:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _STORAGES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")

    def persistent_load(self, pid: Any) -> str:
        _, kind, key, *_ = pid
        self.kinds[key] = _STORAGES[kind]
        return str(key)


def _rebuild(
    storage: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> _View:
    return _View(storage, offset, tuple(shape), tuple(strides))
