"""Runs a module of Vectrial's as a program: `python -m vectrial.util.program MODULE ARGUMENT…`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def fast_loading() -> Iterator[None]:
    """Turn off garbage collection in the block, which loads modules, and exempt what they made from
    it afterwards: it would take a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def run() -> None:
    """Load the module that the first argument names and call its `main`, which reads its own
    arguments from `sys.argv`."""
    with fast_loading():
        module = import_module(sys.argv.pop(1))
    module.main()


if __name__ == "__main__":
    run()
