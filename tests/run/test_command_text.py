"""What commands print for a person: whole, and readable where it is narrow."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from command_calls import call, subcommands
from rich.table import Table
from small_suite import Inside
from typer.testing import CliRunner

from vectrial.cli.app import app
from vectrial.cli.commands import LazyCommand, LazyGroup
from vectrial.cli.output import CleanConsole, say
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.results.clean import INSTEAD
from vectrial.util.suggest import suggestion


def printed(*arguments: str, columns: int = 100) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("experiments", "[[experiments]]"),
        ("report", "[RUN]"),
        ("data import", "FILE"),
        ("data fetch", "{NAME}..."),
        ("stores", "vectrial stores faiss"),
        ("run", "vectrial run --resume runs/latest"),
        ("bundle", "(beside RUN,"),
    ],
)
def test_help_is_not_taken_for_markup(command: str, whole: str) -> None:
    assert whole in printed(*command.split(), "--help")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its words, imported."""
    within = subcommands(command)
    if not within:
        yield " ".join(path), command.load()
        return
    for name, one in within.items():
        yield from leaves(one, (*path, name))


def lazy(group: Any) -> Iterator[LazyCommand]:
    for one in subcommands(group).values():
        yield from lazy(one) if isinstance(one, LazyGroup) else [one]


LAZY = list(lazy(typer.main.get_command(app)))
COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_commands_are_found() -> None:
    assert {"run", "data import", "serve", "down"} <= COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_piped(command: str) -> None:
    told = printed(*command.split(), "--help", columns=200)
    (line,) = (line for line in told.splitlines() if "--format" in line and " -f " in line)
    assert "jsonl" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str) -> None:
    lines = [line.strip() for line in inspect.cleandoc(COMMANDS[command].help).splitlines()]
    assert any(re.match(rf"(\w+=\S+ )?vectrial {command}\b", line) for line in lines)


def test_what_cannot_be_shown_ends_no_command(tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": "latin-1", "VECTRIAL_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", "data", "list"],
        capture_output=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "• is in the library" in done.stdout.decode("utf-8")


def test_a_plan_has_a_line_per_load_and_says_what_is_skipped(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    suite.write_text(
        suite.read_text()
        + '[[stores]]\nstore = "milvus-lite"\nindex = "flat"\nexperiments = ["search"]\n'
        '[[experiments]]\nexperiment = "search"\nstores = ["milvus-lite"]\nclients = [2]\n'
    )
    plan = printed("run", str(suite), "--dry-run", columns=120)
    loads = [line.split() for line in plan.splitlines() if "clustered-16-2k" in line]
    found = {(load[0], load[load.index("clustered-16-2k") + 1]) for load in loads}
    assert found == {("milvus-lite", "2,000")} | {
        (store, rows) for store in ("memory", "hnswlib") for rows in ("1,000", "2,000")
    }
    assert len(loads) == 5
    assert "search ×2" in plan
    assert (
        "skipped: 2 of 3 trials of milvus-lite (flat search): milvus-lite must not be searched"
        in plan
    )


def test_a_remedy_is_short() -> None:
    assert suggestion("hnws", ["hnsw", "flat"]) == "did you mean 'hnsw'?"
    assert suggestion("zzz", ["hnsw", "flat"]) == "one of flat, hnsw"
    assert suggestion("zzz", map(str, range(1000))) == ""


#: Each takes a good part of a second to import.
HEAVY = {"duckdb", "h5py", "numpy", "pandas", "psutil", "pyarrow", "scipy"}
#: What only some commands need, and imports with them where it is used.
LATER = {"pandas", "optuna", "tantivy", "pymilvus", "scipy", "starlette", "weaviate"}


def modules_after(*arguments: str) -> set[str]:
    """Modules that a process has imported when a command ends."""
    said = (
        "import atexit, sys\nfrom vectrial.cli.main import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\nmain()"
    )
    argv = [sys.executable, "-c", said, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("data", "--help"), ("rnu",), ("data", "lits")]
)
def test_what_needs_no_command_imports_none(arguments: tuple[str, ...]) -> None:
    there = modules_after(*arguments)
    assert "vectrial.cli.commands" in there
    assert not HEAVY & there
    if arguments[0].startswith("--"):  # else typer checks the options before the command with it
        assert "pydantic" not in there
    assert not {one.module for one in LAZY} & there


def test_a_command_imports_its_own_module() -> None:
    there = modules_after("experiments", "--format", "jsonl")
    assert {"vectrial.cli.experiments", "pydantic"} <= there
    assert not {"vectrial.cli.run", "vectrial.cli.report"} & there
    assert not LATER & there


@pytest.mark.parametrize("command", LAZY, ids=lambda one: one.name)
def test_the_line_of_a_command_is_the_first_of_its_help(command: LazyCommand) -> None:
    first = inspect.cleandoc(command.load().help or "").partition("\n\n")[0]
    assert command.help == " ".join(first.split())


def test_a_misspelt_command_is_told_the_nearest() -> None:
    for words, nearest in (["rnu"], "run"), (["data", "lits"], "list"):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert f"Did you mean '{nearest}'?" in done.stderr


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package that brings commands, one of which is broken, and a group
    with one."""
    about = tmp_path / "pebbles-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pebbles\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[vectrial.commands]\npebble = pebbles:pebble\nbroken = pebbles:missing\n"
        "run = pebbles:pebble\npond.skip = pebbles:skip\nrun.skip = pebbles:skip\n"
    )
    (tmp_path / "pebbles.py").write_text(
        '"""What to do\nat a pond.\n\nExit codes: 0."""\n'
        'def pebble() -> None:\n    """Throw a pebble."""\n    print("thrown")\n'
        'def skip() -> None:\n    """Skip a pebble."""\n    print("skipped")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("plugin")
def test_a_package_brings_a_command() -> None:
    assert re.search(r"pebble\s+Throw a pebble\.", printed("--help"))
    assert call("pebble").out == "thrown\n"
    assert "Measure" in call("run", "--help").out, "a command of Vectrial is not replaced"


@pytest.mark.usefixtures("plugin")
def test_a_package_brings_a_group_of_commands() -> None:
    assert re.search(r"pond\s+What to do at a pond\.", printed("--help"))
    assert re.search(r"skip\s+Skip a pebble\.", printed("pond", "--help"))
    assert "Exit codes: 0." in printed("pond", "--help")
    assert call("pond", "skip").out == "skipped\n"
    assert call("run", "skip", "--help").code == 0, "a command of Vectrial is no group"


@pytest.mark.usefixtures("plugin")
def test_a_broken_command_names_its_package() -> None:
    done = call("broken")
    assert done.code == 2
    assert "package 'pebbles', entry point 'broken' of vectrial.commands" in done.err
    assert call("compare", "--help").code == 0, "it stands in nobody's way"


# -- `vectrial experiments` names every experiment and every parameter a suite may set ------------


def test_every_experiment_with_every_parameter(inside: Inside) -> None:
    listed = inside("experiments", "--format", "jsonl")
    assert listed.code == 0, listed.err
    rows = {row["experiment"]: row for row in map(json.loads, listed.out.splitlines())}
    assert set(rows) == set(EXPERIMENTS)
    for name, kind in EXPERIMENTS.items():
        assert set(rows[name]["parameters"]) == set(kind.model_fields)
    assert rows["crud"]["parameters"]["samples"] == 1000
    table = inside("experiments")
    assert all(name in table.out for name in EXPERIMENTS)


# -- no text of a server, a column or a name steers the terminal ----------------------------------


STEERS = "a\x1b[2J\x1b]0;owned\x07\x9b5mb"


def test_a_console_prints_what_it_is_given_as_text() -> None:
    out = io.StringIO()
    console = CleanConsole(file=out, force_terminal=True, width=80, color_system="standard")
    say(console, f"failed: {STEERS}")
    table = Table()
    table.add_column(STEERS)
    table.add_row(STEERS)
    console.print(table)
    console.print("[bold]ours[/bold]", markup=True)
    said = out.getvalue()
    for steers in ("\x1b[2J", "\x1b]0", "\x07", "\x9b"):
        assert steers not in said
    assert INSTEAD in said
    assert "\x1b[1mours" in said, "what Vectrial itself sets stays"


def test_an_error_prints_what_it_names_as_text(inside: Inside) -> None:
    done = inside("report", f"none-{STEERS}")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert done.err.count("\n") == 1
