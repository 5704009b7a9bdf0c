"""`vectrial conformance`: the conformance suite on a store."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, say, stderr_console, stdout_console
from vectrial.stores import registry
from vectrial.testing.run import CheckOutcome
from vectrial.testing.run import conformance as run_suite
from vectrial.util import formatting

#: Columns of the table, by pytest's outcome.
_OUTCOMES = {"passed": "passed", "failed": "failed", "skipped": "not declared"}


def conformance(
    store: options.StoreArgument,
    every_case: Annotated[
        bool,
        typer.Option(
            "--every-case",
            help="Run every check on every index under every metric, instead of on those that can"
            " change its outcome.",
        ),
    ] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Run the conformance suite on a STORE: search, filters, reads, writes and refusals, as far as
    the store declares them, against exact answers.

    \b
    vectrial conformance hnswlib
    vectrial conformance mystore --format jsonl | jq 'select(.outcome == "failed")'

    Output of pytest goes to stderr. The table counts checks by part of the suite, and each reason
    for failures follows once; with --format jsonl there is an object for each check. Needs the
    extra `testing`.

    Exit codes: 0 success, 1 a check failed, 2 the store or pytest is missing.
    """
    console = stderr_console()
    kind = registry.load(store)
    checks = run_suite(kind, every_case=every_case, show=lambda line: say(console, line))
    if form is Format.JSONL:
        print_json(map(asdict, checks))
    else:
        stdout_console().print(_table(store, checks))
        for line in _failures(checks):
            say(stdout_console(), line)
    if any(check.outcome == "failed" for check in checks):
        sys.exit(1)


def _table(store: str, checks: Sequence[CheckOutcome]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_footer=True)
    counts = Counter((check.module, check.outcome) for check in checks)
    table.add_column(f"checks of {store}", footer="all")
    for outcome, title in _OUTCOMES.items():
        total = sum(check.outcome == outcome for check in checks)
        table.add_column(title, justify="right", footer=str(total))
    for module in dict.fromkeys(check.module for check in checks):
        table.add_row(module, *(str(counts[module, outcome]) for outcome in _OUTCOMES))
    return table


def _failures(checks: Sequence[CheckOutcome]) -> list[str]:
    """A line for each reason why checks failed, the most frequent first."""
    failed: dict[str, list[str]] = defaultdict(list)
    for check in checks:
        if check.outcome == "failed":
            failed[check.reason].append(check.check)
    return [
        f"{formatting.plural(len(names), 'check')} failed, {names[0]} among them: {reason}"
        if len(names) > 1
        else f"{names[0]} failed: {reason}"
        for reason, names in sorted(failed.items(), key=lambda item: -len(item[1]))
    ]
