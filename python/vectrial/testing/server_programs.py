"""Server programs that tests need. If one is unavailable the test is skipped, or fails if the
environment says that the program must be there.

VECTRIAL_MUST_RUN=weaviate,redis names recipes (`vectrial.servers.base.Recipe.name`), or other
things that tests need: axe, the accessibility checker of pages.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from vectrial.servers.base import NoProgram, Recipe
from vectrial.servers.provide import prepare

MUST_RUN = "VECTRIAL_MUST_RUN"


def must_run(recipe: Recipe) -> bool:
    """True if tests of this server must not be skipped."""
    return _must_run(recipe.name)


def no_program(recipe: Recipe, why: object) -> NoReturn:
    """End a test whose server is not available: skip it, or fail it if it must run."""
    skip_or_fail(recipe.name, why)


def skip_or_fail(name: str, why: object) -> NoReturn:
    """End a test that needs something unavailable: skip it, or fail it if it must run."""
    if _must_run(name):
        pytest.fail(f"{MUST_RUN} names {name}, which cannot be had: {why}")
    pytest.skip(f"{name}: {why}")


def _must_run(name: str) -> bool:
    return name in os.environ.get(MUST_RUN, "").split(",")


def require_startable(recipe: Recipe, *, nodes: int = 1) -> None:
    """Make sure that a server of this kind, or a cluster, can be started; otherwise see
    `no_program`."""
    try:
        prepare(recipe, print, nodes=nodes)
    except NoProgram as error:
        no_program(recipe, error)


def program(recipe: Recipe) -> Path:
    """The server's program in this machine's cache; otherwise see `no_program`."""
    try:
        return recipe.program(print)
    except NoProgram as error:
        no_program(recipe, error)
