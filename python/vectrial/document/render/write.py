"""Writes a report's files."""

from __future__ import annotations

from pathlib import Path

from vectrial.document.blocks import Report
from vectrial.document.render import draw, export, html, markdown
from vectrial.model.errors import UserError
from vectrial.model.progress import LineProgress


def write_html(report: Report, out: Path) -> Path:
    """Write `report.html`."""
    path = out / "report.html"
    path.write_text(html.render(report), encoding="utf-8")
    return path


def write_markdown(report: Report, out: Path) -> Path:
    """Write `report.md`; its figures are those that `write_figures` writes."""
    path = out / "report.md"
    path.write_text(markdown.render(report), encoding="utf-8")
    return path


def write_figures(
    report: Report, out: Path, progress: LineProgress = lambda name: None
) -> list[Path]:
    """Write `figures/<name>.svg` and `.png` for every figure."""
    folder = made(out / "figures")
    for figure in report.figures():
        progress(figure.name)
        draw.export(figure, folder)
    return [folder / f"{f.name}.{kind}" for f in report.figures() for kind in ("svg", "png")]


def write_csv(report: Report, run: Path, out: Path) -> list[Path]:
    """Write `csv/<table>.csv` for every table, all measurements, and the run's time series."""
    folder = made(out / "csv")
    for table in report.tables():
        export.write_table(table, folder / f"{table.name}.csv")
    export.write_measurements(export.measurements(run), folder / "measurements.csv")
    export.write_raw(run, folder)
    return sorted(folder.glob("*.csv"))


def made(folder: Path) -> Path:
    """The folder, created if it is missing.

    Raises:
        UserError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder cannot be made: {error.strerror}", where=str(folder),
            remedy="give another one with --out",
        ) from error  # fmt: skip
    return folder
