"""What measures imports in every environment that a store has for itself."""

from __future__ import annotations

import subprocess

import pytest

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Environment
from vectrial.util import environments

#: Sections of reports read runs and draw elsewhere; the reference server of the Flight protocol is
#: a program of its own, and imports a library for texts.
PROBE = """
import importlib, pkgutil
import vectrial_reproduce
found = []
for package in ("experiments", "segments", "stores"):
    top = importlib.import_module(f"vectrial_reproduce.{package}")
    found += [one.name for one in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")]
for name in (*found, "vectrial_reproduce.detection"):
    apart = name.startswith("vectrial_reproduce.stores.flight.reference")
    if not apart and name.rpartition(".")[2] not in ("report", "charts"):
        importlib.import_module(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", environments.names())
def test_what_the_measuring_process_needs_imports_there(name: str) -> None:
    if lacks := environments.lacking(Environment(name)):
        pytest.skip(lacks)
    run = environments.command(Environment(name), "unused", classes=(EXPERIMENTS["anomaly"],))
    done = subprocess.run(
        [run.argv[0], "-c", PROBE], env=run.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
