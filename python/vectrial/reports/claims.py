"""Conclusions of a published report, judged by the figures that they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from vectrial.document import blocks as doc
from vectrial.document.blocks import Column, Row, Section, Table
from vectrial.reports import figure_text
from vectrial.reports.collect import ComparedFigure
from vectrial.reports.figures_render import Palette
from vectrial.reports.model import Claim, Reproduction, Side
from vectrial.reports.page_tables import words
from vectrial.reports.tables import system
from vectrial.util import formatting

_LEAD = (
    "What the report concludes, and whether it is so here: the first value over the second of each"
    " pair of figures, published and measured under the same load; or a ratio as it was published,"
    " and the most that it could be here."
)

#: Columns of a table with a row for each claim.
OVERVIEW = (
    Column("claim", "The report says", numeric=False),
    Column("outcome", "Here", numeric=False),
    Column("pairs", "In figures", numeric=False),
)


class Verdict(Enum):
    """Whether the first value of a measured pair is the larger one, or a published ratio no larger
    than the measured limit."""

    YES = "yes"
    LESS = "yes, by less than the report says"
    NO = "no"
    OPEN = "the ranges of the repeats overlap"
    AGAIN = "as above: on the same rows"
    NONE = "not measured"
    POSSIBLE = "possible"
    IMPOSSIBLE = "no: it is above the limit here"


class Outcome(Enum):
    """What came of a claim."""

    HOLDS = "holds here"
    PARTLY = "holds here in part"
    REVERSED = "reversed here"
    NOT_SHOWN = "not shown"
    POSSIBLE = "possible here"
    ABOVE = "not possible here"
    NONE = "not measured here"


@dataclass(frozen=True)
class Pair:
    """Two figures of one store that differ in what the claim is about, or one that is a ratio.

    least: how many times as large the first is said to be at least. again: what was measured for
    them was measured for another pair.
    """

    first: ComparedFigure
    second: ComparedFigure | None
    least: float = 1.0
    again: bool = False

    @property
    def cells(self) -> tuple[ComparedFigure, ...]:
        """The two, or the one."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def systems(self) -> tuple[str, ...]:
        """The one system that both are of, or the two."""
        return tuple(dict.fromkeys(cell.figure.store for cell in self.cells))

    @property
    def published(self) -> float:
        """The first published value over the second, or the ratio."""
        one = self.first.figure
        if self.second is None:
            return one.value
        return one.comparable_value / self.second.figure.comparable_value

    @property
    def measured(self) -> float | None:
        """The first measured value over the second, or the limit of the ratio; None unless what is
        needed is valid."""
        one, other = self.first, self.second
        if not (one.valid and one.measured) or self.unlike:
            return None
        if other is None:
            return one.measured
        if not (other.valid and other.measured):
            return None
        own = one.figure.in_comparable_unit(one.measured)
        return own / other.figure.in_comparable_unit(other.measured)

    @property
    def verdict(self) -> Verdict:
        """Whether the claim is so here."""
        if self.measured is None:
            return Verdict.NONE
        if self.second is None:
            possible = self.published <= self.measured
            return Verdict.POSSIBLE if possible else Verdict.IMPOSSIBLE
        if self.again:
            return Verdict.AGAIN
        one, other = self.first.spread, self.second.spread
        if one and other and min(one.n, other.n) > 1 and one.overlaps(other):
            return Verdict.OPEN
        if self.measured <= 1:
            return Verdict.NO
        return Verdict.YES if self.measured >= self.least else Verdict.LESS

    @property
    def why(self) -> str:
        """Why there is no measured ratio."""
        other = self.second.why if self.second else ""
        return self.first.why or other or self.unlike

    @property
    def absence(self) -> str:
        """Why there is no ratio: its figures were not measured, or they are not compared."""
        measured = all(cell.measured is not None for cell in self.cells)
        return f"not {'compared' if measured else 'measured'}: {self.why}"

    @property
    def unlike(self) -> str:
        """Why the times of two systems are not compared, since one lacks what the other has."""
        lacks = {cell.figure.store: cell.lacks for cell in self.cells}
        if len(set(lacks.values())) == 1:
            return ""
        return ", ".join(f"{name} is without {what} here" for name, what in lacks.items() if what)


def pairs(claim: Claim, cells: Sequence[ComparedFigure]) -> list[Pair]:
    """The pairs of figures that a claim is about, in the order of the first."""

    def of(side: Side) -> Iterator[tuple[tuple[object, ...], ComparedFigure]]:
        for cell in cells:
            figure, own = cell.figure, side.given.items()
            there = (figure.experiment, figure.metric) == (side.part, claim.metric)
            chosen = not side.stores or figure.store in side.stores
            if there and chosen and own <= figure.params.items():
                rest = sorted((k, v) for k, v in figure.params.items() if k not in side.given)
                yield ("" if side.stores else figure.store, *rest), cell

    first = list(of(claim.first))
    if claim.second is None:
        return [Pair(cell, None) for _, cell in first]
    second = list(of(claim.second))
    found, seen = list[Pair](), set[tuple[object, ...]]()
    for key, cell in first:
        for other in (other for own, other in second if own == key):
            pair = Pair(cell, other, claim.least)
            values = (pair.systems, cell.measured, other.measured)
            found.append(replace(pair, again=values in seen))
            seen.add(values)
    return found


def outcome(found: Sequence[Pair]) -> Outcome:
    """The verdict on a claim, out of those on its pairs."""
    verdicts = [pair.verdict for pair in found]
    judged = [one for one in verdicts if one not in (Verdict.NONE, Verdict.AGAIN)]
    if not judged:
        return Outcome.NONE
    if all(pair.second is None for pair in found):
        return Outcome.POSSIBLE if Verdict.POSSIBLE in judged else Outcome.ABOVE
    if all(one is Verdict.YES for one in judged):
        return Outcome.HOLDS
    if Verdict.YES in judged or Verdict.LESS in judged:
        return Outcome.PARTLY
    # No pair holds: the claim is reversed where most of them are.
    against = judged.count(Verdict.NO)
    return Outcome.REVERSED if 2 * against > len(judged) else Outcome.NOT_SHOWN


def told(found: Sequence[Pair]) -> str:
    """The verdict on a claim, in a sentence with its numbers."""
    verdicts = [pair.verdict for pair in found]
    if all(pair.second is None for pair in found):
        return _limit_verdict(found)
    judged = len(found) - verdicts.count(Verdict.NONE) - verdicts.count(Verdict.AGAIN)
    theirs = sum(pair.published > 1 and pair.published >= pair.least for pair in found)
    published = f"as published in {theirs} of {len(found)}"
    if not judged:
        return f"Not measured here; {published}."
    less, undecided = verdicts.count(Verdict.LESS), verdicts.count(Verdict.OPEN)
    more = f", by less than that in {less}" if less else ""
    more += f", undecided in {undecided}" if undecided else ""
    what = outcome(found).value.capitalize()
    return (
        f"{what}: in {verdicts.count(Verdict.YES)} of {judged} measured pairs{more}; {published}."
    )


def details(found: Sequence[Pair]) -> str:
    """The numbers behind the verdict on a claim, without its outcome."""
    sentence = told(found)
    return sentence.partition(": ")[2] or sentence


def _limit_verdict(found: Sequence[Pair]) -> str:
    """The verdict on ratios that are held against limits."""
    limits = [pair for pair in found if pair.measured is not None]
    if not limits:
        return f"Not measured here: {found[0].why}."
    each = (f"{_ratio(p, p.published)} published, at most {_ratio(p, p.measured)}" for p in limits
            if p.measured is not None)  # fmt: skip
    return f"{outcome(found).value.capitalize()}: {', '.join(each)} here."


def section(
    report: Reproduction, cells: Sequence[ComparedFigure], palette: Palette
) -> Iterator[Section]:
    """The claims of the report, each with its verdict; none where the report lists none."""
    each = [(claim, pairs(claim, cells)) for claim in report.claims]
    each = [(claim, found) for claim, found in each if found]
    if each:
        tables = (
            _table(f"claim-{number}", claim, found, palette)
            for number, (claim, found) in enumerate(each, 1)
            if any(pair.measured is not None for pair in found)
        )
        yield Section("claims", "What the report concludes", _LEAD, (_overview(each), *tables))


def _overview(each: Sequence[tuple[Claim, Sequence[Pair]]]) -> Table:
    """One row for each claim."""
    rows = tuple(Row.of(claim.text, outcome(found).value, details(found)) for claim, found in each)
    return Table("claims", "All conclusions that rest on its figures", OVERVIEW, rows)


def _table(name: str, claim: Claim, found: Sequence[Pair], palette: Palette) -> Table:
    """The pairs that were measured, and why the others were not."""
    heads = (
        Column("store", "Store", numeric=False),
        Column("at", "At", numeric=False),
        Column("published", "Published"),
        Column("measured", "Measured"),
        Column("verdict", "Holds here", numeric=False),
    )
    shared = _shared([pair.first.figure.params for pair in found])
    rows = tuple(_row(pair, shared, palette) for pair in found if pair.measured is not None)
    lacking = Counter(pair.absence for pair in found if pair.measured is None)
    absent = (f"{formatting.plural(count, 'pair')} {why}." for why, count in lacking.items())
    notes = tuple(filter(None, (told(found), claim.note, *absent)))
    return Table(name, claim.text, heads, rows, notes, grouped_by=0)


def _row(pair: Pair, shared: set[str], palette: Palette) -> Row:
    figure = pair.first.figure
    at = {name: value for name, value in figure.params.items() if name not in shared}
    return Row.of(
        " over ".join(dict.fromkeys(_system(cell, palette) for cell in pair.cells)),
        ", ".join(f"{words(name)} {figure_text.setting(value)}" for name, value in at.items()),
        doc.Cell(_ratio(pair, pair.published), pair.published),
        doc.Cell(_limit(pair), pair.measured),
        pair.verdict.value,
        series=palette.series(figure.store, False),
    )


def _system(cell: ComparedFigure, palette: Palette) -> str:
    """A system, and what was measured for this figure of it."""
    name = cell.figure.store
    return system(name, cell.here) if cell.here else palette.measured(name)


def _ratio(pair: Pair, ratio: float) -> str:
    """'×3.2', or '18.6 %' as it was published."""
    if pair.first.figure.unit == "%" and pair.second is None:
        return f"{figure_text.printed(ratio)} %"
    return formatting.ratio(ratio, 2)


def _limit(pair: Pair) -> str:
    """The measured ratio, or the limit of a published one."""
    assert pair.measured is not None
    return ("≤ " if pair.second is None else "") + _ratio(pair, pair.measured)


def _shared(params: Sequence[Mapping[str, object]]) -> set[str]:
    """Names of parameters that have one value in all of them."""
    return {name for name in params[0] if len({str(one.get(name)) for one in params}) == 1}
