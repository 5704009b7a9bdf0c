"""A comparison as a document: a page, text for a terminal, a comment for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from vectrial.compare.build import ALIASES, Comparison
from vectrial.compare.cells import load_of
from vectrial.compare.groups import JUDGED
from vectrial.compare.judge import Verdict
from vectrial.compare.sides import Side
from vectrial.document.blocks import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Report,
    Row,
    Section,
    Source,
    Table,
    Text,
    Tone,
    absent_cell,
    columns,
    plain_cell,
    table_of,
)
from vectrial.stats.effects import ALPHA, Mean
from vectrial.stats.verdict import VerdictKind
from vectrial.util import formatting

_TONES: Mapping[VerdictKind, Tone] = {
    VerdictKind.WORSE: "wrong",
    VerdictKind.BETTER: "good",
    VerdictKind.TIE: "ok",
    VerdictKind.UNDECIDED: "invalid",
    VerdictKind.NOT_COMPARABLE: "absent",
}
_MARKS = {
    VerdictKind.WORSE: "🔴",
    VerdictKind.BETTER: "🟢",
    VerdictKind.TIE: "⚪",
    VerdictKind.UNDECIDED: "❔",
    VerdictKind.NOT_COMPARABLE: "➖",
}
#: Characters of a reason in a table, and on a card; JSON lines have it whole.
_LONGEST, _CARD = 240, 90
_COLUMNS = (
    *columns("what", "metric"),
    Column("a", "A", spread=True),
    Column("b", "B", spread=True),
    Column("change", "Change", "1", spread=True),
    *columns("verdict"),
    Column("minimum", "Smallest detectable change", "1", minor=True),
)


def place_text(verdict: Verdict) -> str:
    """Experiment, phase (if it adds information), load, and recall or setting."""
    cell = verdict.cell
    name = cell.experiment
    if cell.phase and cell.phase not in ("search", cell.experiment):
        name = f"{name} {cell.phase}"
    return " · ".join(
        part for part in (name, load_of(cell.experiment, cell.terms), cell.at) if part
    )


def sheet_title(verdict: Verdict) -> str:
    """The terms that all rows of a table share."""
    cell = verdict.cell
    terms = cell.terms
    parts = [
        cell.subject,
        str(terms.get("dataset", "")),
        formatting.rows(int(terms.get("rows", 0))),
    ]
    parts += [f"k = {terms['k']}"] if "k" in terms else []
    return " · ".join([*parts, str(terms.get("lane", ""))])


def metric_name(verdict: Verdict) -> str:
    """The short name of the metric; empty if the reason applies to all."""
    metric = verdict.cell.metric
    names = {name: alias for alias, name in ALIASES.items()}
    return "" if metric is None else names.get(metric.name, metric.name)


def figures(verdict: Verdict) -> tuple[str, str, str]:
    """A, B and the change, each with its interval, as text."""
    cells = (_value(verdict, verdict.mean_a, 0), _value(verdict, verdict.mean_b, 1))
    a, b, change = (
        f"{cell.text} ({cell.detail})" if cell.detail else cell.text
        for cell in (*cells, _change(verdict))
    )
    return a, b, change


def report(
    comparison: Comparison,
    chart: Callable[[str, str, Sequence[Verdict]], Figure] | None = None,
) -> Report:
    """The document for a page or a terminal: counts, tables of verdicts, and the cells that were
    not compared, with reasons.

    chart: makes a figure from a name, a title and verdicts; None: no figures.
    """
    blocks: list[Block] = []
    compared = [v for v in comparison.verdicts if v.kind is not VerdictKind.NOT_COMPARABLE]
    for number, (title, verdicts) in enumerate(_group_by_sheet(compared).items(), 1):
        if chart is not None:
            blocks.append(chart(f"changes-{number}", title, verdicts))
        blocks.append(_table(f"verdicts-{number}", f"{title}: the figures", verdicts))
    apart = comparison.with_kind(VerdictKind.NOT_COMPARABLE)
    remarks = _remarks(comparison)
    sections = (
        Section("verdicts", "Verdicts", _legend(comparison), tuple(blocks)),
        Section("apart", "Not compared", "Cells without a counterpart on equal terms, and invalid"
                " ones.", (_reasons(apart),) if apart else ()),
        Section("caveats", "Caveats", "", (Text(remarks, bullets=True),) if remarks else ()),
    )  # fmt: skip
    return Report(
        title="B against A",
        note=_notes(comparison),
        meta=(
            ("A", _side_name(comparison.a)),
            ("B", _side_name(comparison.b)),
            ("In all", comparison.headline),
            ("Threshold", f"{comparison.threshold * 100:.3g} %"),
        ),
        answers=(
            (
                "In short",
                tuple(
                    _card(comparison, kind) for kind in VerdictKind if comparison.with_kind(kind)
                ),
            ),
        ),
        sections=tuple(section for section in sections if section.blocks),
    )


def comment(comparison: Comparison) -> Report:
    """The document for a pull request: changes first, the rest folded."""
    changed = [*comparison.with_kind(VerdictKind.WORSE), *comparison.with_kind(VerdictKind.BETTER)]
    rest = [
        v
        for kind in (VerdictKind.UNDECIDED, VerdictKind.TIE, VerdictKind.NOT_COMPARABLE)
        for v in comparison.with_kind(kind)
    ]
    remarks = _remarks(comparison)
    blocks: list[Block] = []
    if changed:
        blocks.append(_table("changed", "", changed, whole=True))
    if rest:
        title = f"{len(rest)} without a difference"
        blocks.append(replace(_table("rest", title, rest, whole=True), folded=True))
    if remarks:
        title = formatting.plural(len(remarks), "caveat")
        blocks.append(Text(remarks, title, bullets=True, folded=True))
    blocks.append(Text((_legend(comparison),)))
    kinds = (VerdictKind.WORSE, VerdictKind.BETTER, VerdictKind.UNDECIDED, VerdictKind.TIE)
    mark = next((_MARKS[kind] for kind in kinds if comparison.with_kind(kind)), "➖")
    return Report(
        title=f"{mark} {comparison.headline}",
        about=f"{comparison.b.name} (B) against {comparison.a.name} (A).",
        note=_notes(comparison),
        sections=(Section("verdicts", "", "", tuple(blocks)),),
    )


def _legend(comparison: Comparison) -> str:
    return (
        f"B against A: geometric means of the repeats with their range; change: the ratio of the"
        f" means with its 95 % interval. worse, better: by {comparison.threshold * 100:.3g} % of A"
        " or more, and shown by the repeats (t of logarithms, Holm over all cells: a false alarm"
        f" in at most {ALPHA * 100:.0f} % of comparisons). tie: the whole interval lies within"
        f" {comparison.threshold * 100:.3g} %. undecided: anything else."
    )


def _remarks(comparison: Comparison) -> tuple[str, ...]:
    said = (*comparison.advice, *comparison.alone, *comparison.caveats)
    return tuple(_shorten(one) for one in said)


def _group_by_sheet(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    sheets: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        sheets.setdefault(sheet_title(verdict), []).append(verdict)
    return sheets


def _notes(comparison: Comparison) -> str:
    """The notes on the runs; once if both sides are of the same run."""
    a, b = comparison.a.run, comparison.b.run
    if a.folder == b.folder:
        return a.note
    named = (("A", a.note), ("B", b.note))
    return "\n\n".join(f"{side}: {note}" for side, note in named if note)


def _side_name(side: Side) -> str:
    return f"{side.name} ({side.run.run['suite_name']})"


def _card(comparison: Comparison, kind: VerdictKind) -> Answer:
    """The number of verdicts of a kind, with their metrics or the commonest reasons."""
    found = comparison.with_kind(kind)
    about = list(dict.fromkeys(metric_name(v) or v.reason for v in found))
    more = f" and {len(about) - 3} more" if len(about) > 3 else ""
    return Answer(
        question=str(kind).capitalize(),
        answer=str(len(found)),
        figure=f"of {formatting.plural(len(comparison.verdicts), 'cell')}",
        bound="; ".join(_shorten(one, _CARD) for one in about[:3]) + more,
    )


def _shorten(text: str, most: int = _LONGEST) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _table(name: str, title: str, verdicts: Sequence[Verdict], *, whole: bool = False) -> Table:
    """A table of verdicts. whole: each row also has its sheet, and a mark for its verdict."""
    return Table(name, title, _COLUMNS, tuple(_row(verdict, whole) for verdict in verdicts))


def _row(verdict: Verdict, whole: bool) -> Row:
    kind, least = verdict.kind, verdict.minimum
    return Row.from_values(
        f"{sheet_title(verdict)} · {place_text(verdict)}" if whole else place_text(verdict),
        metric_name(verdict) or formatting.NOTHING,
        _value(verdict, verdict.mean_a, 0),
        _value(verdict, verdict.mean_b, 1),
        _change(verdict),
        Cell(
            f"{_MARKS[kind]} {kind}" if whole else str(kind), str(kind), _shorten(verdict.reason),
            tone=_TONES[kind],
        ),
        least if least is None else plain_cell(least, _percent(least)),
    )  # fmt: skip


def _value(verdict: Verdict, mean: Mean | None, side: int) -> Cell:
    if mean is None:
        return absent_cell()
    cell = verdict.cell
    assert cell.metric is not None
    phases, values = ((cell.phases_a, cell.a), (cell.phases_b, cell.b))[side]
    ids = tuple(one for repeat in sorted(phases) for one in phases[repeat])
    # Of one phase a repeat nothing was read off: the values are those of the phases.
    recall = cell.recall if len(ids) > len(values) else None
    judged = formatting.is_recall(cell.metric.name) or cell.metric.name in JUDGED
    if judged:  # never 1 for what is not
        shown, *ends = map(formatting.recall, (mean.value, mean.low, mean.high))
        detail = "–".join(ends) if ends[0] != ends[1] else ""
    else:
        shown = formatting.measure(mean.value, cell.metric.unit)
        detail = formatting.span(mean.low, mean.high, cell.metric.unit)
    source = Source(ids, cell.metric.name, recall, side=side)
    return Cell(shown, mean.value, detail, low=mean.low, high=mean.high, source=source)


def _change(verdict: Verdict) -> Cell:
    effect = verdict.effect
    if effect is None:
        return absent_cell()
    change, low, high = (x - 1 for x in (effect.ratio, effect.low, effect.high))
    ends = [_percent(low, "+"), _percent(high, "+")]
    detail = " … ".join(ends) if ends[0] != ends[1] else ""
    return Cell(_percent(change, "+"), change, detail, low=low, high=high)


def _percent(share: float, sign: str = "") -> str:
    if share > 10:
        return formatting.ratio(share + 1) if share < 1e6 else "> ×1,000,000"
    return f"{share * 100:+.1f} %" if sign else f"{share * 100:.3g} %"


def _reasons(verdicts: Sequence[Verdict]) -> Table:
    rows = (
        (sheet_title(v), place_text(v), metric_name(v) or "all", _shorten(v.reason))
        for v in verdicts
    )
    heads = columns(subject="Terms", what="What", metric="Metric", reason="Reason")
    return table_of("not-compared", formatting.plural(len(verdicts), "cell"), heads, rows)
