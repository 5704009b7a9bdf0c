"""Modules that a test file names and only its tests import: to collect all tests, each process
would import every database's client, some of which take a second."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_mock")):  # pytest asks every object whether it is a test
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
