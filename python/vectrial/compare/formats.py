"""A comparison as JSON lines, and as JUnit XML, which continuous integration can show.

In JUnit there is a suite per subject and dataset, and a case per cell: worse is a failure, better
and tie pass. Undecided and incomparable cells, and those that only one side has, are skipped with
the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from vectrial.compare.build import Comparison
from vectrial.compare.document import figures, place_text, sheet_title
from vectrial.compare.judge import Verdict
from vectrial.stats.effects import POWER, Mean
from vectrial.stats.verdict import VerdictKind


def objects(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One object for each verdict, then one for each note on a run and each caveat; docs/compare.md
    explains the keys."""
    for verdict in comparison.verdicts:
        cell, effect = verdict.cell, verdict.effect
        yield {
            "kind": "verdict",
            "verdict": str(verdict.kind),
            "reason": verdict.reason or None,
            "subject": cell.subject,
            "dataset": cell.terms.get("dataset"),
            "rows": cell.terms.get("rows"),
            "experiment": cell.experiment,
            "phase": cell.phase or None,
            "terms": dict(cell.terms),
            "side": cell.side or None,
            "at": cell.at or None,
            "metric": cell.metric.name if cell.metric else None,
            "unit": cell.metric.unit if cell.metric else None,
            "a": _side(verdict.mean_a, cell.a),
            "b": _side(verdict.mean_b, cell.b),
            "change": verdict.change,
            "change_low": None if effect is None else effect.low - 1,
            "change_high": None if effect is None else effect.high - 1,
            "p": None if effect is None else effect.p,
            "p_adjusted": verdict.p_adjusted,
            "paired": None if effect is None else effect.paired,
            "at_pace": None if effect is None else effect.at_pace,
            "change_measured": verdict.change if verdict.measured is None else verdict.measured,
            "minimum_effect": _finite(verdict.minimum),
            "more_repeats": verdict.more,
            "power": POWER,
            "threshold": comparison.threshold,
        }
    for side, run in (("a", comparison.a.run), ("b", comparison.b.run)):
        if run.note:
            yield {"kind": "note", "side": side, "reason": run.note}
    for said in comparison.advice:
        yield {"kind": "advice", "reason": said}
    for said in comparison.alone:
        yield {"kind": "alone", "reason": said}
    for said in comparison.caveats:
        yield {"kind": "caveat", "reason": said}


def _side(mean: Mean | None, values: Mapping[int, float]) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {
        "mean": mean.value,
        "low": mean.low,
        "high": mean.high,
        "repeats": {str(repeat): values[repeat] for repeat in sorted(values)},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


#: The suite of stores and indexes that one side alone has.
_ALONE = "on one side alone"
_SKIPPED = (VerdictKind.UNDECIDED, VerdictKind.NOT_COMPARABLE)


def junit(comparison: Comparison) -> str:
    """The JUnit document, in UTF-8 with its declaration."""
    sheets: dict[str, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        sheets.setdefault(sheet_title(verdict), []).append(verdict)
    kinds = [verdict.kind for verdict in comparison.verdicts]
    apart = [VerdictKind.NOT_COMPARABLE] * len(comparison.alone)
    root = Xml.Element("testsuites", _counts([*kinds, *apart], "vectrial compare"))
    for name, verdicts in sheets.items():
        suite = Xml.SubElement(root, "testsuite", _counts([v.kind for v in verdicts], name))
        for verdict in verdicts:
            _add_case(suite, name, verdict)
    if apart:
        suite = Xml.SubElement(root, "testsuite", _counts(apart, _ALONE))
        for said in comparison.alone:
            Xml.SubElement(
                _property_element(suite, _ALONE, said), "skipped", {"message": _xml_text(said)}
            )
    last = root[-1] if len(root) else None
    if last is not None and comparison.caveats:
        Xml.SubElement(last, "system-out").text = _xml_text("\n".join(comparison.caveats))
    Xml.indent(root)
    body = Xml.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _counts(kinds: Sequence[VerdictKind], name: str) -> dict[str, str]:
    return {
        "name": _xml_text(name),
        "tests": str(len(kinds)),
        "failures": str(kinds.count(VerdictKind.WORSE)),
        "errors": "0",
        "skipped": str(sum(kind in _SKIPPED for kind in kinds)),
        "time": "0",
    }


def _add_case(suite: Xml.Element, name: str, verdict: Verdict) -> None:
    metric = verdict.cell.metric.name if verdict.cell.metric else "all metrics"
    case = _property_element(suite, name, f"{place_text(verdict)} · {metric}")
    a, b, change = figures(verdict)
    said = f"{verdict.kind}: A {a}, B {b}, change {change}"
    if verdict.kind is VerdictKind.WORSE:
        failure = Xml.SubElement(case, "failure", {"message": _xml_text(said), "type": "worse"})
        failure.text = _xml_text(f"{said}; p after Holm {verdict.p_adjusted:.2g}")
    elif verdict.kind in _SKIPPED:
        reason = verdict.reason if verdict.effect is None else f"{said}; {verdict.reason}"
        Xml.SubElement(case, "skipped", {"message": _xml_text(reason)})
    else:
        reason = f"; {verdict.reason}" if verdict.reason else ""
        Xml.SubElement(case, "system-out").text = _xml_text(said + reason)


def _property_element(suite: Xml.Element, value: str, name: str) -> Xml.Element:
    facts = {"classname": _xml_text(value), "name": _xml_text(name), "time": "0"}
    return Xml.SubElement(suite, "testcase", facts)


def _xml_text(text: str) -> str:
    """The text without characters that XML 1.0 cannot hold: messages of a store may contain any."""
    return "".join(c if c in "\t\n" or (c >= " " and not _is_forbidden(c)) else "�" for c in text)


def _is_forbidden(c: str) -> bool:
    return "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"
