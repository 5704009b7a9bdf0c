"""`vectrial data`: datasets, the user's own first."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="data",
    help="Datasets: what is there, fetch one, import your own, look into it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
