"""Runs the conformance suite on one store, in a separate process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vectrial.model.errors import UserError, VectrialError
from vectrial.model.store import Store
from vectrial.servers.provide import prepare, recipe_of
from vectrial.stores import registry
from vectrial.util import environments
from vectrial.util.child_environment import for_measuring_with_server
from vectrial.util.children import python

_SUITE = "vectrial.testing.conformance"
#: Exit codes of pytest: all passed, some failed. Others are that it could not run.
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class CheckOutcome:
    """Outcome of one check on one index and metric.

    module: the part of the suite. case: "STORE-INDEX-METRIC", with "-bare" added for rows without
        metadata; "STORE" for a skipped check. outcome: "passed", "failed", or "skipped" if the
        store does not declare the capability. reason: empty if it passed.
    """

    module: str
    check: str
    case: str
    outcome: str
    reason: str


def conformance(
    store: type[Store],
    *,
    every_case: bool = False,
    show: Callable[[str], None] = lambda line: None,
) -> tuple[CheckOutcome, ...]:
    """Run the suite on `store`, in the store's own environment if it has one.

    Args:
        every_case: run every check on every index under every metric; else on the indexes and
            metrics that can change its outcome.
        show: gets each line that pytest prints.

    Raises:
        UserError: pytest is missing.
        VectrialError: the store cannot run here, or the suite did not run to its end.
    """
    recipe = recipe_of(store)
    if recipe is not None:
        prepare(recipe, show)
    available = registry.availability(store, served=recipe is not None)
    if available.works is False:
        raise UserError(available.text, where=store.name)
    with tempfile.TemporaryDirectory(prefix="vectrial-conformance-") as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        outcomes.touch()
        argv, env = _command(store, None if recipe is None else recipe.name)
        env |= {
            "VECTRIAL_STORES": registry.reference(store),
            "VECTRIAL_OUTCOMES": str(outcomes),
            # Plug-ins of pytest that happen to be installed are no part of the suite.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        env |= {"VECTRIAL_EVERY_CASE": "1"} if every_case else {}
        code = _run((*argv, f"--basetemp={folder}/tmp"), env, show)
        lines = outcomes.read_text(encoding="utf-8").splitlines()
    if code not in (_PASSED, _FAILED) or not lines:
        raise VectrialError(f"{store.name}: pytest ended with {code} before the suite did")
    return tuple(CheckOutcome(**json.loads(line)) for line in lines)


def _command(store: type[Store], server: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command that runs the suite, and its environment variables."""
    config = Path(__file__).with_name("conformance") / "pytest.ini"
    arguments = [
        *("--pyargs", _SUITE, "-p", f"{_SUITE}.plugin", "-p", "no:cacheprovider"),
        *("-c", str(config), "-q", "--tb=short", "--color=no"),
    ]
    if store.environment is not None:
        command = environments.command(store.environment, "pytest", arguments, classes=(store,))
        return command.argv, for_measuring_with_server(command.env, server)
    if importlib.util.find_spec("pytest") is None:
        raise UserError(
            "the conformance suite needs pytest, which is not installed",
            remedy="pip install 'vectrial[testing]'",
        )
    return python("pytest", *arguments), for_measuring_with_server(os.environ, server)


def _run(argv: tuple[str, ...], env: dict[str, str], show: Callable[[str], None]) -> int:
    """Run the suite and return its exit code. The suite ends with this process."""
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                show(line.rstrip("\n"))
        except BaseException:
            process.terminate()
            raise
    return process.returncode
