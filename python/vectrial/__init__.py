"""Vectrial, a benchmark of vector databases."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    """`__version__`, found out when it is asked for: a command that was just started must end by
    Ctrl-C without a word, and Python's imports before it answers with a traceback."""
    if name != "__version__":
        raise AttributeError(f"module 'vectrial' has no attribute '{name}'")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vectrial")
    except PackageNotFoundError:  # imported from a source tree by a store's own environment
        return "0+source"
