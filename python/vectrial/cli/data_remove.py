"""`vectrial data remove`: datasets that are no longer needed."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from vectrial.cli.form import Form, FormOption, on_stderr, say
from vectrial.datasets import library
from vectrial.model.errors import UserError


def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets in the library.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Delete datasets from the library. Runs that used them stay.

    Imported datasets must be imported again; those of the catalogue can be fetched again.

        vectrial data remove my
        vectrial data remove my other --yes
    """
    asked = list(dict.fromkeys(names))
    sizes = {name: library.size_bytes(name) / 1e6 for name in asked}
    console = on_stderr()
    for name, megabytes in sizes.items():
        say(console, f"{name}: {megabytes:,.1f} MB in {library.path(name)}")
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("to delete datasets needs consent", remedy="add --yes")
        if not typer.confirm("Delete?", err=True):
            raise typer.Exit(1)
    for name, megabytes in sizes.items():
        library.remove(name)
        told = {"name": name, "removed": True, "disk_mb": round(megabytes, 1)}
        print(json.dumps(told) if form is Form.JSONL else f"{name}: removed")
