"""PyArrow without pandas."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


class _NoPandas:
    """A module finder that hides pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Raise `ModuleNotFoundError` for pandas; leave every other module to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def load_without_pandas() -> None:
    """Load PyArrow as if pandas were not installed. Programs of Vectrial begin with this call.

    PyArrow looks for pandas once, when it is first given an array or a value, and imports it if it
    is installed: a second, and 33 MiB that would be counted as a library's memory only because some
    other library needs pandas. A library that imports pandas itself finds it, and `to_pandas`
    works.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0]).to_numpy()
    finally:
        sys.meta_path.remove(finder)
