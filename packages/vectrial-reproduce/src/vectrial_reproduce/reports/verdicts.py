"""Verdicts on the conclusions of a report, from pairs of figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from vectrial.gate.checks import CHECKS
from vectrial.stats.intervals import LEAST_REPEATS, Spread
from vectrial.util import formatting
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.model import Absence, Claim, ClaimSide

#: A single run decides nothing within such a share; of a recall within such a difference.
_SHARE, _RECALL = 0.1, 0.01


class ClaimVerdict(Enum):
    """Verdict on a measured pair: is the first value the larger one?"""

    YES = "yes"
    LESS = "yes, by less than the report says"
    MORE = "yes, by more than the report says"
    NO = "no"
    OPEN = "undecided"
    AGAIN = "as above: on the same rows"
    NONE = "not measured"


class ClaimOutcome(Enum):
    """The outcome of a claim."""

    HOLDS = "holds"
    IN_SIZE = "holds, but not in size"
    PARTLY = "holds in part"
    REVERSED = "reversed"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class PairValue:
    """One value of a pair. published: None if the report has no figure of it. why: why it has no
    value that counts. cell: the figure that it belongs to."""

    value: float | None
    published: float | None = None
    spread: Spread | None = None
    rows: int | None = None
    why: str = ""
    is_recall: bool = False
    cell: ComparedFigure | None = None


def quantity(cell: ComparedFigure) -> PairValue:
    """A figure as a value of a pair."""
    figure, measured, why = cell.figure, cell.measured, cell.why
    if measured is not None and cell.few_calls:
        measured, why = None, "it is the time of a few calls"
    if measured is not None and measured <= 0:
        measured, why = None, f"no {figure.metric.replace('_', ' ')} of {figure.store} was shown"
    factor, spread = figure.in_comparable_unit(1.0), cell.spread
    if spread is not None:
        spread = replace(spread, low=spread.low * factor, high=spread.high * factor)
    return PairValue(
        measured * factor if measured is not None and cell.valid else None,
        figure.comparable_value,
        spread,
        cell.rows,
        why,
        figure_text.is_recall(figure.metric),
        cell,
    )


@dataclass(frozen=True)
class Pair:
    """Values claimed to have a larger product in `over` than in `under`.

    least, most: see `Claim`. again: the same measurements were used for another pair.
    """

    over: tuple[PairValue, ...]
    under: tuple[PairValue, ...]
    least: float = 1.0
    most: float = math.inf
    again: bool = False

    @property
    def values(self) -> tuple[PairValue, ...]:
        """All values of the pair."""
        return (*self.over, *self.under)

    @property
    def cells(self) -> tuple[ComparedFigure, ...]:
        """The figures among the values."""
        return tuple(one.cell for one in self.values if one.cell is not None)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that the figures belong to."""
        return tuple(dict.fromkeys(cell.figure.store for cell in self.cells))

    @property
    def published(self) -> float | None:
        """The published ratio; None if there is none."""
        return _ratio([q.published for q in self.over], [q.published for q in self.under])

    @property
    def measured(self) -> float | None:
        """The measured ratio; None unless all required values are valid and comparable."""
        if self.why_unlike:
            return None
        return _ratio([q.value for q in self.over], [q.value for q in self.under])

    @property
    def rows(self) -> int:
        """Largest number of rows among the values."""
        return max((q.rows for q in self.values if q.rows), default=0)

    @property
    def repeats(self) -> int:
        """Smallest number of repeats among the measured values."""
        return min(
            (1 if q.spread is None else q.spread.n for q in self._measured_values), default=1
        )

    @property
    def _measured_values(self) -> list[PairValue]:
        """The values, without numbers given by the report."""
        return [q for q in self.values if q.rows is not None or q.spread is not None]

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict on whether the claim holds here."""
        ratio = self.measured
        if ratio is None:
            return ClaimVerdict.NONE
        if self.again:
            return ClaimVerdict.AGAIN
        bounds = [1.0, *(one for one in (self.least, self.most) if one != 1 and one < math.inf)]
        if any(self._is_near(ratio, bound) for bound in bounds):
            return ClaimVerdict.OPEN
        if ratio <= 1:
            return ClaimVerdict.NO
        if ratio > self.most:
            return ClaimVerdict.MORE
        return ClaimVerdict.YES if ratio >= self.least else ClaimVerdict.LESS

    def _is_near(self, ratio: float, bound: float) -> bool:
        """True if the measurement does not decide on which side of a bound the ratio lies."""
        if self.repeats >= LEAST_REPEATS:
            low = _ratio(
                [_range_end(q, "low") for q in self.over],
                [_range_end(q, "high") for q in self.under],
            )
            high = _ratio(
                [_range_end(q, "high") for q in self.over],
                [_range_end(q, "low") for q in self.under],
            )
            return low is None or high is None or low <= bound <= high
        if self.is_of_recalls and bound == 1:
            known = [q.value or 0.0 for q in self.values]
            return abs(ratio - 1 if len(known) > 2 else known[0] - known[1]) <= _RECALL
        return abs(math.log(ratio / bound)) <= math.log(1 + _SHARE)

    @property
    def is_of_recalls(self) -> bool:
        """True if all its values are recalls."""
        return all(q.is_recall for q in self.values)

    @property
    def why(self) -> str:
        """Reason why there is no measured ratio."""
        return next((q.why for q in self.values if q.why), self.why_unlike)

    @property
    def absence(self) -> str:
        """Reason why there is no ratio: its figures were not measured, or are not compared."""
        measured = all(cell.measured is not None for cell in self.cells)
        return f"not {'compared' if measured else 'measured'}: {reason_text(self.why)}"

    @property
    def why_unlike(self) -> str:
        """Reason why the times of two systems are not compared: one lacks what the other has."""
        lacks = {cell.figure.store: cell.lacks for cell in self.cells}
        if len(set(lacks.values())) < 2:
            return ""
        return ", ".join(f"{name} is without {what} here" for name, what in lacks.items() if what)


def _ratio(
    numerators: Sequence[float | None], denominators: Sequence[float | None]
) -> float | None:
    known = [one for one in (*numerators, *denominators) if one is not None]
    if len(known) < len(numerators) + len(denominators) or not all(denominators):
        return None
    return math.prod(known[: len(numerators)]) / math.prod(known[len(numerators) :])


def _range_end(value: PairValue, which: str) -> float | None:
    """An end of the range of a value's repeats; for a number, the number itself."""
    return value.value if value.spread is None else float(getattr(value.spread, which))


def pairs(claim: Claim, cells: Sequence[ComparedFigure]) -> list[Pair]:
    """The pairs of figures that a claim is about, in the order of their first figures."""
    if claim.first is None:
        return []
    first = list(_side_figures(claim, claim.first, cells))
    if claim.against is not None:
        values = [quantity(cell) for _, cell in first]
        number = PairValue(claim.against, claim.against)
        return [
            Pair((one,), (replace(number, is_recall=one.is_recall),), claim.least, claim.most)
            for one in values
        ]
    assert claim.second is not None
    others = [
        list(_side_figures(claim, side, cells)) for side in (claim.second, *(claim.beside or ()))
    ]
    found, seen = list[Pair](), set[tuple[object, ...]]()
    for key, one in first:
        for second in (cell for own, cell in others[0] if own == key):
            beside = [next((c for own, c in of if own == key), None) for of in others[1:]]
            known = [cell for cell in beside if cell is not None]
            if len(known) < len(beside):
                continue
            over = (one, *known[1:])
            under = (second, *known[:1])
            pair = Pair(
                tuple(map(quantity, over)), tuple(map(quantity, under)), claim.least, claim.most
            )
            same = (pair.systems, *(cell.measured for cell in (*over, *under)))
            found.append(replace(pair, again=same in seen))
            seen.add(same)
    return found


def _side_figures(
    claim: Claim, side: ClaimSide, cells: Sequence[ComparedFigure]
) -> Iterator[tuple[tuple[object, ...], ComparedFigure]]:
    """The figures of a side, each with the key that it shares with its counterparts."""
    for cell in cells:
        figure = cell.figure
        there = (figure.experiment, figure.metric) == (side.part, side.metric or claim.metric)
        if there and (not side.stores or figure.store in side.stores) and side.has(figure.params):
            rest = sorted((k, v) for k, v in figure.params.items() if k not in side.given)
            yield ("" if side.stores else figure.store, *rest), cell


def judged_pairs(found: Sequence[Pair]) -> list[Pair]:
    """The pairs that have a verdict of their own."""
    return [pair for pair in found if pair.verdict not in (ClaimVerdict.NONE, ClaimVerdict.AGAIN)]


def outcome(found: Sequence[Pair]) -> ClaimOutcome | None:
    """The outcome of a claim from the verdicts on its pairs; None if no pair has one."""
    verdicts = [pair.verdict for pair in judged_pairs(found)]
    if not verdicts:
        return None
    no, undecided = verdicts.count(ClaimVerdict.NO), verdicts.count(ClaimVerdict.OPEN)
    decided = len(verdicts) - undecided
    if undecided > decided:
        return ClaimOutcome.UNDECIDED
    if no == decided:
        return ClaimOutcome.REVERSED
    if no:
        return ClaimOutcome.PARTLY
    if ClaimVerdict.YES in verdicts:
        return (
            ClaimOutcome.HOLDS
            if verdicts.count(ClaimVerdict.YES) == decided
            else ClaimOutcome.PARTLY
        )
    return ClaimOutcome.IN_SIZE


def outcome_words(claim: Claim, found: Sequence[Pair]) -> tuple[str, str]:
    """The outcome of a claim as a word for the page of conclusions, and a sentence on it."""
    came = outcome(found)
    if came is not None:
        return came.value, details(found)
    if claim.absent is not None:
        kind, why = claim.absent
        return kind.value, why
    for pair in found:  # valid, and yet without a ratio
        if pair.cells and all(cell.valid for cell in pair.cells):
            return ClaimOutcome.UNDECIDED.value, _sentence(pair.why)
    wrong = [c for pair in found for c in pair.cells if c.measured is not None and not c.valid]
    if wrong:
        return ClaimOutcome.INVALID.value, f"Because {reason_text(wrong[0].why, wrong[0].store)}."
    why = next((pair.why for pair in found if pair.why), "")
    return Absence.NOT_YET.value, _sentence(why)


def _sentence(why: str) -> str:
    said = reason_text(re.sub(r"^(skipped|failed|not yet): (\w+: )?", "", why))
    return f"{said[:1].upper()}{said[1:].rstrip('.')}." if said else ""


def reason_text(why: str, store: str = "the store") -> str:
    """A reason as a sentence; a failed gate is described by what its checks demand."""
    failed = [name for name in re.findall(r"(?:^|; |: )([a-z_]+): ", why) if name in CHECKS]
    if not failed:
        return why
    demands = " ".join(dict.fromkeys(CHECKS[name].demands for name in failed))
    return f"{store} fails the gate, which demands: {demands.rstrip('.')}"


def details(found: Sequence[Pair]) -> str:
    """The numbers behind the verdict on a claim."""
    each = judged_pairs(found)
    verdicts = [pair.verdict for pair in each]
    known = [pair.published for pair in found if pair.published is not None]
    theirs = sum(one > 1 and one >= pair.least for pair in found if (one := pair.published))
    published = f"; as published in {theirs} of {len(known)}" if known else ""
    said = (
        f"In {verdicts.count(ClaimVerdict.YES)} of {formatting.plural(len(each), 'measured pair')}"
    )
    for verdict, how in (
        (ClaimVerdict.LESS, "by less than that"), (ClaimVerdict.MORE, "by more than that"),
        (ClaimVerdict.OPEN, "undecided"),
    ):  # fmt: skip
        if count := verdicts.count(verdict):
            said += f", {how} in {count}"
    ratios = sorted(pair.measured for pair in each if pair.measured is not None)
    if ratios:
        digits = 4 if all(pair.is_of_recalls for pair in each) else 2
        ends = dict.fromkeys(formatting.ratio(one, digits) for one in (ratios[0], ratios[-1]))
        said += f", {' to '.join(ends)}"
    return f"{said}{published}."
