"""What measures imports in every environment that a store has for itself."""

from __future__ import annotations

import pytest
from environment_imports import check_imports

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.util import environments

MEASURES = ("experiments", "segments", "stores", "detection")


@pytest.mark.slow
@pytest.mark.parametrize("name", environments.names())
def test_what_the_measuring_process_needs_imports_there(name: str) -> None:
    """The reference server of the Flight protocol is a program of its own, and imports a library
    for texts."""
    check_imports(
        name,
        [f"vectrial_reproduce.{package}" for package in MEASURES],
        classes=(EXPERIMENTS["anomaly"],),
        apart="vectrial_reproduce.stores.flight.reference",
    )
