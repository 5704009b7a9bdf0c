"""`vectrial report`: everything derived from a finished run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli.form import on_stderr, on_stdout


class Format(StrEnum):
    """What a report is written as."""

    ALL = "all"
    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSONL = "jsonl"
    TEXT = "text"


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Run folder or bundle."),
    ] = Path("runs/latest"),
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="all: report.html, report.md, csv/ and figures/. html, md (with figures/), csv:"
            " only that. jsonl: every measured value on stdout. text: a summary on stdout.",
        ),
    ] = Format.ALL,
    out: Annotated[
        Path | None,
        typer.Option(help="Output folder.", show_default="RUN/report, or BUNDLE-report"),
    ] = None,
) -> None:
    """Write the report of a run: one offline HTML file, Markdown, CSV and figures.

    Nothing is measured. It works for interrupted runs too. Examples:

        vectrial report                                     the newest run, everything
        vectrial report runs/20261121-120000-demo -f html   only the page
        vectrial report --format jsonl | jq .value          every measured value
        vectrial report theirs.vectrial.tar.gz              the report of a bundle
    """
    from vectrial.results.bundle import SUFFIX, run_folder
    from vectrial.results.foreign import understood
    from vectrial.results.reading import PROCESSES

    if out is None:
        beside = run.name.removesuffix(SUFFIX) + "-report"
        out = run.with_name(beside) if run.is_file() else run.resolve() / "report"
    PROCESSES.warm()
    with run_folder(run) as folder, understood(run):
        _write(folder, format_, out)


def _write(run: Path, format_: Format, out: Path) -> None:
    """What `report` says, of a run's folder."""
    # Imported here: the other commands need not wait for the chart library.
    from vectrial.analysis.run_data import load
    from vectrial.document.render import export, write
    from vectrial.report.build import build, summary

    if format_ is Format.JSONL:
        export.write_jsonl(export.measurements(run), sys.stdout)
        return
    loaded = load(run)
    if format_ is Format.TEXT:
        on_stdout(markup=True).print(summary(loaded))
        return
    made = build(loaded)
    folder = write.made(out)
    console = on_stderr()
    with console.status("drawing") as status:
        if format_ in (Format.ALL, Format.MARKDOWN):
            write.write_figures(made, folder, lambda name: status.update(f"drawing {name}"))
            written = write.write_markdown(made, folder)
        if format_ in (Format.ALL, Format.CSV):
            status.update("writing tables")
            written = write.write_csv(made, loaded.folder, folder)[0].parent
        if format_ in (Format.ALL, Format.HTML):
            status.update("writing report.html")
            written = write.write_html(made, folder)
    print(written if format_ is not Format.ALL else folder / "report.html")
