"""The page of all conclusions of all reports: one verdict for each, from the best evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os.path import relpath
from pathlib import Path

from vectrial.analysis.run_data import RunData, load
from vectrial.document import blocks as doc
from vectrial.document.blocks import Block, Column, Report, Row, Section, Table, columns, table_of
from vectrial.document.render import markdown
from vectrial.model.errors import DataError
from vectrial.report.pages import FIGURES, with_origin
from vectrial.results.bundle import SUFFIX
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.util import formatting
from vectrial_reproduce.reports import REPRODUCTIONS, claims, figure_text, methods
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.model import Absence, Claim, Reproduction, RunReading
from vectrial_reproduce.reports.page_tables import readable_name
from vectrial_reproduce.reports.planning import Settings
from vectrial_reproduce.reports.published import figures
from vectrial_reproduce.reports.verdicts import (
    ClaimOutcome,
    Pair,
    PairValue,
    judged_pairs,
    outcome_words,
    pairs,
)

PAGE = "reproduction.md"
_ORIGIN = "Generated from the bundles of docs/results by `make results-pages`."
_TITLE = "Conclusions of the reports"
_ABOUT = (
    "What the published reports conclude, and what came of it here, out of the committed results:"
    " one verdict for each conclusion, from the best evidence there is, which is named: of each"
    " dataset the reproduction with most rows, then with most repeats, then by the report's own"
    " method. What the others say is folded below."
)
_WORDS: Sequence[tuple[ClaimOutcome | Absence, str]] = (
    (ClaimOutcome.HOLDS, "so in every pair of figures that decides"),
    (ClaimOutcome.IN_SIZE, "so in every such pair, but by less or more than the report says"),
    (ClaimOutcome.PARTLY, "so in some of them, and not in others"),
    (ClaimOutcome.REVERSED, "the opposite is so in every such pair"),
    (
        ClaimOutcome.UNDECIDED,
        "most pairs do not decide: single runs that differ by 10 % or less (in recall by 0.01), or"
        f" ranges of repeats that overlap. {LEAST_REPEATS} repeats would decide the former, and"
        " more of them some of the latter (vectrial reproduce with --repeats)",
    ),
    (ClaimOutcome.INVALID, "measured, but the store failed the correctness gate"),
    (Absence.NOT_YET, "Vectrial can measure it, and no committed result has"),
    (Absence.CANNOT, "a system, a build or data that it takes are not to be had here"),
    (
        Absence.NEVER,
        "nothing in Vectrial measures it, for lack of hardware or since it is no matter of figures",
    ),
)
#: Values of one figure that differ by so much are named.
_APART = 1.25
_EXTENT = (
    "Published figures that have a valid value from here in one of the committed reproductions,"
    " those of them whose value was measured at the report's own number of rows, and those with a"
    f" spread: {LEAST_REPEATS} repeats or more."
)


@dataclass(frozen=True)
class Committed:
    """A reproduction whose runs are committed. place: its folder."""

    place: Path
    report: Reproduction
    settings: Settings
    cells: tuple[ComparedFigure, ...]
    page: Report


@dataclass(frozen=True)
class ClaimEvidence:
    """Evidence on a claim from one committed result. result: its name. dataset: dataset of the
    report, or the result if the pairs are not published figures."""

    result: str
    pairs: tuple[Pair, ...]
    dataset: str
    faithful: bool = False

    @property
    def rank(self) -> tuple[int, int, bool, int]:
        """Sort key, larger is better: rows, then repeats, then the report's method, then pairs."""
        own = judged_pairs(self.pairs)
        return (
            max((pair.rows for pair in own), default=0),
            min((pair.repeats for pair in own), default=0),
            self.faithful,
            len(own),
        )

    def __str__(self) -> str:
        rows, repeats, faithful, _ = self.rank
        how = "one run" if repeats == 1 else f"{repeats} repeats"
        theirs = ", the report's method" if faithful else ""
        return f"{self.result}: {formatting.rows(rows)}, {how}{theirs}"


def conclusions(found: Sequence[Committed], results: Path, page_folder: Path) -> str:
    """The page of all conclusions. results: folder of the bundles. page_folder: the folder that the
    page is written into."""
    run = cache(lambda name: _run(results, name))
    sections = (
        Section("words", "The words", "", (_words_table(),)),
        Section("extent", "How much of them was measured", _EXTENT, (_extent_table(found),)),
        *(
            Section(
                name,
                report.title,
                "",
                tuple(_blocks(report, _reproductions_of(report, found), run)),
            )
            for name, report in REPRODUCTIONS.items()
            if report.claims
        ),
    )
    page = markdown.render(Report(_TITLE, _ABOUT, sections=sections), FIGURES)
    # A link in a cell would be shown as it is written.
    names = {one.place.name: one.place for one in found}
    for claim in (claim for report in REPRODUCTIONS.values() for claim in report.claims):
        names |= {name: results / name for name in _results(claim)}
    for name, path in names.items():
        place = Path(relpath(path, page_folder)).as_posix()
        page = re.sub(rf"(?<=[|;] ){re.escape(name)}(?=: )", f"[{name}]({place})", page)
    return with_origin(page, _ORIGIN)


def _words_table() -> Table:
    heads = columns("word", "means")
    return table_of("words", "", heads, [(one.value, means) for one, means in _WORDS])


def _reproductions_of(report: Reproduction, found: Sequence[Committed]) -> list[Committed]:
    """The reproductions of one report."""
    return [one for one in found if one.report.name == report.name]


def _extent_table(found: Sequence[Committed]) -> Table:
    heads = columns(
        report="Report",
        figures=("Published", ""),
        measured=("With a value", ""),
        whole=("At the report's rows", ""),
        repeated=("With a spread", ""),
    )
    rows = [_extent_of(report, found) for report in REPRODUCTIONS.values()]
    total = ("All", *(sum(counts) for counts in list(zip(*rows, strict=True))[1:]))
    return table_of("extent", "", heads, (*rows, total))


def _extent_of(report: Reproduction, found: Sequence[Committed]) -> tuple[str, int, int, int, int]:
    """The report's title, and the numbers of its figures: published, and with a valid value in at
    least one reproduction, measured at the report's rows, and with a spread."""
    own = (one.cells for one in _reproductions_of(report, found))
    # Each has every figure, in the report's order.
    of_each = [[cell for cell in cells if cell.valid] for cells in zip(*own, strict=True)]
    return (
        report.title,
        len(figures(report.name)),
        sum(bool(cells) for cells in of_each),
        sum(any(cell.is_full_size for cell in cells) for cells in of_each),
        sum(any(_repeats(cell) >= LEAST_REPEATS for cell in cells) for cells in of_each),
    )


def _repeats(cell: ComparedFigure) -> int:
    return 0 if cell.spread is None else cell.spread.n


def _blocks(
    report: Reproduction, found: Sequence[Committed], run: Callable[[str], RunData]
) -> Iterator[Block]:
    """The claims of a report, other evidence on them, and its method next to ours."""
    rows, others = [], []
    for claim in report.claims:
        every = [*_figures(claim, found), *_readings(claim, run)]
        best, rest = _best_evidence(every)
        chosen = best or every
        said = outcome_words(claim, [pair for one in chosen for pair in one.pairs])
        named = "; ".join(dict.fromkeys(map(str, best))) or formatting.NOTHING
        rows.append(Row.from_values(doc.plain_cell(claim.text, note=claim.note), *said, named))
        others += [
            Row.from_values(claim.text, *outcome_words(claim, one.pairs), str(one)) for one in rest
        ]
    heads = (*claims.OVERVIEW, Column("evidence", "Evidence", numeric=False))
    yield Table(f"claims-{report.name}", "", heads, tuple(rows))
    if others:
        title = f"Further evidence: {formatting.plural(len(others), 'verdict')}"
        yield Table(f"others-{report.name}", title, heads, tuple(others), folded=True)
    yield from _repeat_tables(found)
    yield from _method_tables(found)


def _repeat_tables(found: Sequence[Committed]) -> Iterator[Table]:
    """Tables of figures that differ widely between reproductions on the same rows by the same
    method; the reproduction that loaded most rows of that dataset comes first."""
    rows = []
    for at, figure in enumerate(figures(found[0].report.name) if found else ()):
        same: dict[tuple[int | None, bool], list[tuple[int, str, float]]] = {}
        for one in found:
            cell = one.cells[at]
            if cell.valid and cell.measured is not None:
                most = max(c.rows or 0 for c in one.cells if _dataset(c) == _dataset(cell))
                own = same.setdefault((cell.rows, one.settings.faithful), [])
                own.append((most, one.place.name, cell.measured))
        for (loaded, _), several in same.items():
            values = [value for *_, value in several]
            if min(values) > 0 and max(values) / min(values) > _APART:
                unit = figure_text.unit_suffix(figure)
                used, *rest = (
                    f"{name}: {figure_text.measured_text(figure.metric, value)}{unit}"
                    for _, name, value in sorted(several, key=lambda one: -one[0])
                )
                rows.append(
                    (figure.store, readable_name(figure.metric), loaded, used, "; ".join(rest))
                )
    heads = columns("store", "metric", rows=("Rows", ""), used="Used", others="Beside it")
    if rows:
        title = "Measured more than once, and far apart"
        note = (
            f"Single runs of the same rows that differ by more than {_APART - 1:.0%}: neither is"
            " wrong, and a verdict that rests on one of them is no surer than this."
        )
        table = table_of(f"repeated-{found[0].report.name}", title, heads, rows)
        yield replace(table, notes=(note,))


def _dataset(cell: ComparedFigure) -> object:
    return cell.figure.params.get("dataset")


def _figures(claim: Claim, found: Sequence[Committed]) -> Iterator[ClaimEvidence]:
    """Evidence on a claim from each reproduction, by dataset."""
    for one in found:
        by_dataset: dict[str, list[Pair]] = {}
        for pair in pairs(claim, one.cells):
            dataset = str(_dataset(pair.cells[0]))
            by_dataset.setdefault(dataset, []).append(pair)
        for dataset, own in by_dataset.items():
            yield ClaimEvidence(one.place.name, tuple(own), dataset, one.settings.faithful)


def _best_evidence(
    every: Sequence[ClaimEvidence],
) -> tuple[list[ClaimEvidence], list[ClaimEvidence]]:
    """The best evidence on each dataset among the evidence that decides something, and the rest."""
    able = [one for one in every if judged_pairs(one.pairs)]
    by_dataset: Mapping[str, ClaimEvidence] = {
        one.dataset: one for one in sorted(able, key=lambda one: one.rank)
    }
    best = [one for one in able if by_dataset[one.dataset] is one]
    return best, [one for one in able if one not in best]


def _method_tables(own: Sequence[Committed]) -> Iterator[Table]:
    """Tables of the figures by the report's own method, if it was repeated at the same scale as
    Vectrial's."""
    for one in (one for one in own if one.settings.faithful):
        fair = (
            other
            for other in own
            if not other.settings.faithful and other.settings.scale == one.settings.scale
        )
        both = (pair for other in fair for pair in zip(one.cells, other.cells, strict=True))
        table = methods.table(f"methods-{one.place.name}", both)
        if table is not None:
            yield table


# --- values of other committed runs ------------------------------------------------------------


def _results(claim: Claim) -> list[str]:
    """Names of the results that a claim's readings come from."""
    every = (one for both in claim.readings for one in both)
    return list(dict.fromkeys(one.result for one in every if isinstance(one, RunReading)))


def _readings(claim: Claim, run: Callable[[str], RunData]) -> Iterator[ClaimEvidence]:
    """Evidence on a claim from other committed results."""
    for name in _results(claim):
        found = tuple(
            Pair((_value(first, run),), (_value(second, run),), claim.least, claim.most)
            for first, second in claim.readings
            if any(isinstance(one, RunReading) and one.result == name for one in (first, second))
        )
        yield ClaimEvidence(name, found, name)


def _value(reading: RunReading | float, run: Callable[[str], RunData]) -> PairValue:
    if not isinstance(reading, RunReading):
        return PairValue(reading)
    for point in run(reading.result).select(reading.experiment, reading.phase):
        own = {**point.index_params, **point.params}
        if (
            (point.series.store, point.series.nodes) == (reading.store, reading.nodes)
            and reading.rows in (None, point.rows)
            and reading.where.items() <= own.items()
            and point.state == "ok"
            and (spread := point.spread(reading.metric)) is not None
        ):
            return PairValue(spread.median, spread=spread, rows=point.rows)
    raise DataError(f"there is no such value: {reading}", where=reading.result)


def _run(results: Path, name: str) -> RunData:
    bundles = sorted((results / name).glob(f"*{SUFFIX}"))
    if not bundles:
        raise DataError("there is no bundle here", where=str(results / name))
    return load(bundles[0])
