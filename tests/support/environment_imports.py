"""What can be imported in an environment that a store has for itself."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from vectrial.model.capabilities import Environment
from vectrial.util import environments

_PROBE = """
import importlib, pkgutil, sys
apart, *packages = sys.argv[1:]
names = list(packages)
for package in packages:
    below = getattr(importlib.import_module(package), "__path__", [])
    names += [one.name for one in pkgutil.walk_packages(below, package + ".")]
for name in names:
    mine = not (apart and name.startswith(apart))
    if mine and name.rpartition(".")[2] not in ("report", "charts"):
        importlib.import_module(name)
"""


def check_imports(
    name: str, packages: Sequence[str], classes: Sequence[type] = (), apart: str = ""
) -> None:
    """Every module of these packages can be imported in the environment of that name. Sections of
    reports (`report`, `charts`) are left out: they read runs and draw, elsewhere.

    classes: their packages must be importable there. apart: the package of a program of its own.
    """
    if lacks := environments.missing_hardware(Environment(name)):
        pytest.skip(lacks)
    run = environments.command(Environment(name), "unused", classes=classes)
    argv = [run.argv[0], "-c", _PROBE, apart, *packages]
    done = subprocess.run(argv, env=run.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
