"""No text of a server, a column or a name steers the terminal."""

from __future__ import annotations

import io

from rich.table import Table
from small_suite import Inside

from vectrial.cli.output import CleanConsole, say
from vectrial.results.clean import INSTEAD

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
