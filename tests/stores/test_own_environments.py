"""Stores that live in an environment of their own are tested inside it.

Making the environment is part of the test: where it cannot be made, the test fails, since the
registry that it is made from is what this project installs everything else from.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vectrial import environments
from vectrial.stores.base import Environment

HERE = Path(__file__).parent


def run_inside(environment: Environment, *arguments: str) -> None:
    """Run pytest with these arguments inside `environment`; fails with what it printed."""
    run = environments.command(
        environment,
        "pytest",
        ["-q", "-p", "no:cacheprovider", *arguments],
        lambda line: print(line, file=sys.stderr),
    )
    done = subprocess.run(
        run.argv, env=run.env, cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    if done.returncode != 0:
        pytest.fail(f"inside '{environment.name}':\n{done.stdout}{done.stderr}", pytrace=False)


@pytest.mark.slow
def test_what_is_particular_to_annlite_and_docarray() -> None:
    run_inside(Environment("docarray"), str(HERE / "inside_docarray.py"))
