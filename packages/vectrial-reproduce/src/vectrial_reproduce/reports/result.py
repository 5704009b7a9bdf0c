"""The result of a reproduction: the cells out of the runs in its folder, and its page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from vectrial.document.blocks import Report
from vectrial_reproduce.reports import folder
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.conditions import ReportConditions, conditions_of
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Reproduction
from vectrial_reproduce.reports.page import build
from vectrial_reproduce.reports.page_tables import Layout
from vectrial_reproduce.reports.planning import Settings


@dataclass(frozen=True)
class ReportResult:
    """The measurements for a report. measured: measured parts by name."""

    report: Reproduction
    settings: Settings
    cells: tuple[ComparedFigure, ...]
    conditions: ReportConditions
    measured: Mapping[str, MeasuredPart]

    def page(self, layout: Layout) -> Report:
        """The report page of the result."""
        return build(self.report, self.cells, self.conditions, self.measured, layout)


def result_of(place: Path, known: Collection[str]) -> ReportResult:
    """The result in a folder. known: names of the available stores.

    Raises:
        UserError: there is no reproduction in the folder.
    """
    manifest = folder.read(place)
    report, settings = manifest.report, manifest.settings
    measured = folder.measured(place, manifest)
    found = cells(report, measured, known=known, stores=settings.stores, faithful=settings.faithful)
    about = conditions_of(report, measured, settings)
    return ReportResult(report, settings, tuple(found), about, measured)
