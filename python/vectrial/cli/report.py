"""`vectrial report`: the report of a finished or interrupted run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli import options
from vectrial.cli.output import stderr_console, stdout_console


class ReportFormat(StrEnum):
    """Output of a report."""

    ALL = "all"
    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"
    JSONL = "jsonl"
    TEXT = "text"


def report(
    run: options.RunArgument = options.LATEST,
    form: Annotated[
        ReportFormat,
        typer.Option(
            "--format",
            "-f",
            help="Output format. all: report.html, report.md, csv/ and figures/. jsonl: every"
            " measured value on stdout. text: a summary on stdout.",
        ),
    ] = ReportFormat.ALL,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Output folder.", show_default="RUN/report, or BUNDLE-report"
        ),
    ] = None,
) -> None:
    """Write the report of a run: one offline HTML file, Markdown, CSV and figures.

    \b
    vectrial report                                     the newest run, everything
    vectrial report runs/20261121-120000-demo -f html   only the page
    vectrial report --format jsonl | jq .value          every measured value
    vectrial report theirs.vectrial.tar.gz              the report of a bundle

    Measures nothing. Works for interrupted runs too.
    """
    from vectrial.results.bundle import SUFFIX, run_folder
    from vectrial.results.foreign import foreign_value_errors

    if out is None:
        beside = run.name.removesuffix(SUFFIX) + "-report"
        out = run.with_name(beside) if run.is_file() else run.resolve() / "report"
    with run_folder(run) as folder, foreign_value_errors(run):
        _write(folder, form, out)


def _write(run: Path, form: ReportFormat, out: Path) -> None:
    # Imported here: the chart library takes a while.
    from vectrial.analysis.run_data import load
    from vectrial.document.render import export
    from vectrial.report.build import build, summary

    if form is ReportFormat.JSONL:
        export.write_jsonl(export.measurements(run), sys.stdout)
        return
    loaded = load(run)
    if form is ReportFormat.TEXT:
        stdout_console(markup=True).print(summary(loaded))
        return
    document = build(loaded)
    folder = export.make_folder(out)
    with stderr_console().status("drawing") as status:
        if form in (ReportFormat.ALL, ReportFormat.MARKDOWN):
            export.write_figures(document, folder, lambda name: status.update(f"drawing {name}"))
            written = export.write_markdown(document, folder)
        if form in (ReportFormat.ALL, ReportFormat.CSV):
            status.update("writing tables")
            written = export.write_csv(document, loaded.folder, folder)[0].parent
        if form in (ReportFormat.ALL, ReportFormat.HTML):
            status.update("writing report.html")
            written = export.write_html(document, folder)
    print(written)
