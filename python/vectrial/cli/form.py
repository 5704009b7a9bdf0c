"""How lists leave a command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Form(StrEnum):
    """For a person, or for a program."""

    TABLE = "table"
    JSONL = "jsonl"


FormOption = Annotated[
    Form, typer.Option("--format", "-f", help="A table, or one JSON object a line to pipe.")
]
