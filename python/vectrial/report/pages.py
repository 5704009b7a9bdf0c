"""Pages of committed results, generated from the bundles beside them, and ignored by git.

`python -m vectrial.report.pages docs/results` writes `report.md` and the figures that it shows
into every folder that holds a bundle.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Report
from vectrial.document.render import draw, export, markdown
from vectrial.model.errors import DataError, UserError, VectrialError
from vectrial.report.build import build
from vectrial.results.bundle import SUFFIX, open_bundle

#: The page and the folder of its figures, both beside the bundle.
PAGE, FIGURES = "report.md", "figures"


@dataclass(frozen=True)
class Page:
    """A report as files. text: `report.md`; figures: SVG texts by file name."""

    text: str
    figures: Mapping[str, str]


def bundles(results: Path) -> list[Path]:
    """The bundles in a folder and below it, sorted by path.

    Raises:
        UserError: there are none, or a folder holds two.
    """
    found = sorted(results.rglob(f"*{SUFFIX}"))
    if not found:
        raise UserError(
            "no bundle here",
            where=str(results),
            remedy="`vectrial bundle RUN --out FOLDER` adds one",
        )
    for first, second in pairwise(found):
        if first.parent == second.parent:
            raise UserError(
                f"two bundles in one folder: {first.name} and {second.name}",
                where=str(first.parent),
                remedy="give each bundle a folder of its own",
            )
    return found


def generate(bundle: Path) -> Page:
    """The page of a bundle. The same bundle gives the same text on any machine.

    Raises:
        DataError: the bundle is damaged, or a figure cannot be drawn.
    """
    report, text = _report_and_text(bundle)
    figures = {f"{figure.name}.svg": draw.standalone_svg(figure) for figure in report.figures()}
    for name, drawing in figures.items():
        if not draw.is_drawn(drawing):
            raise DataError(f"the figure {name} cannot be drawn", where=str(bundle))
    return Page(text, figures)


def text_of(bundle: Path) -> str:
    """The text of a bundle's page.

    Raises:
        DataError: the bundle is damaged.
    """
    return _report_and_text(bundle)[1]


def _report_and_text(bundle: Path) -> tuple[Report, str]:
    """The report of a bundle, and its text."""
    with open_bundle(bundle) as (sealed, folder):
        seal, report = sealed.seal, build(load(folder))
    origin = (
        f"Generated from [{bundle.name}]({bundle.name}) by `make results-pages`. Seal: `{seal}`."
    )
    return report, with_origin(markdown.render(report, FIGURES), origin)


def with_origin(text: str, origin: str) -> str:
    """A page in Markdown with a sentence below its title that names its origin."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{origin}\n{rest}"


def save(page: Page, folder: Path, name: str = PAGE) -> None:
    """Write a page into a folder under the given name, and its figures, if any, into a subfolder.
    Figures of an earlier page are removed."""
    shutil.rmtree(folder / FIGURES, ignore_errors=True)
    for figure, drawing in page.figures.items():
        (export.make_folder(folder / FIGURES) / figure).write_text(drawing, encoding="utf-8")
    (folder / name).write_text(page.text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Generate the pages of the folders named on the command line. Returns the exit code."""
    try:
        for bundle in (one for folder in arguments for one in bundles(Path(folder))):
            save(generate(bundle), bundle.parent)
            print(bundle.parent / PAGE)
    except VectrialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
