"""`vectrial note`: what its owner says of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, print_json
from vectrial.model.errors import UserError
from vectrial.results import note as notes
from vectrial.results.bundle import run_folder


def note(
    run: options.RunArgument = options.LATEST,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Text to add; without it, print the note.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the note instead of adding to it.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the note.")] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Add a TEXT to the note on a RUN, or print the note.

    \b
    vectrial note runs/latest "new disk, governor performance"    add a paragraph
    vectrial note runs/latest --replace "new disk"                 replace the note
    vectrial note runs/latest --clear                              remove it
    vectrial note runs/latest                                      print it
    vectrial note theirs.vectrial.tar.gz                           print that of a bundle
    vectrial run suites/demo.toml --note "new disk"                from the beginning

    The head of the report, `vectrial serve` (list and page of a run) and `vectrial compare` show
    the note. A bundle holds the note that its run had when it was sealed.

    Exit codes: 0 success, 2 no run, or a bundle that was to be changed.
    """
    if clear and (text is not None or replace):
        raise UserError("--clear takes no text", remedy="--replace TEXT replaces the note")
    if replace and text is None:
        raise UserError("--replace needs a text", remedy="--clear removes the note")
    if (text is not None or clear) and run.is_file():
        raise UserError(
            "the note of a sealed bundle cannot be changed",
            where=str(run),
            remedy="change that of its run, and seal it again",
        )
    if text is None and not clear:
        with run_folder(run) as folder:
            _print(run, notes.read(folder), form)
        return
    if text is not None and not replace:
        notes.add(run.resolve(), text)
    else:
        notes.write(run.resolve(), text or "")
    _print(run, notes.read(run.resolve()), form)


def _print(run: Path, text: str, form: Format) -> None:
    if form is Format.JSONL:
        print_json([{"run": str(run), "note": text}])
    elif text:
        print(text)
