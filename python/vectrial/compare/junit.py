"""A comparison as JUnit XML, which continuous integration knows how to show.

A suite per subject and dataset, a case per cell: worse is a failure, better and tie pass. What is
undecided or not comparable is skipped with its reason, and so is what one side has alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from vectrial.compare.build import Comparison
from vectrial.compare.document import figures, place, sheet
from vectrial.compare.judge import Verdict
from vectrial.stats.verdict import VerdictKind

#: The suite of stores and indexes that one side alone has.
_ALONE = "on one side alone"
_SKIPPED = (VerdictKind.UNDECIDED, VerdictKind.NOT_COMPARABLE)


def junit(comparison: Comparison) -> str:
    """The JUnit document, in UTF-8 with its declaration."""
    sheets: dict[str, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        sheets.setdefault(sheet(verdict), []).append(verdict)
    kinds = [verdict.kind for verdict in comparison.verdicts]
    apart = [VerdictKind.NOT_COMPARABLE] * len(comparison.alone)
    root = Xml.Element("testsuites", _counts([*kinds, *apart], "vectrial compare"))
    for name, verdicts in sheets.items():
        suite = Xml.SubElement(root, "testsuite", _counts([v.kind for v in verdicts], name))
        for verdict in verdicts:
            _case(suite, name, verdict)
    if apart:
        suite = Xml.SubElement(root, "testsuite", _counts(apart, _ALONE))
        for said in comparison.alone:
            Xml.SubElement(_named(suite, _ALONE, said), "skipped", {"message": _plain(said)})
    last = root[-1] if len(root) else None
    if last is not None and comparison.caveats:
        Xml.SubElement(last, "system-out").text = _plain("\n".join(comparison.caveats))
    Xml.indent(root)
    body = Xml.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _counts(kinds: Sequence[VerdictKind], name: str) -> dict[str, str]:
    return {
        "name": _plain(name),
        "tests": str(len(kinds)),
        "failures": str(kinds.count(VerdictKind.WORSE)),
        "errors": "0",
        "skipped": str(sum(kind in _SKIPPED for kind in kinds)),
        "time": "0",
    }


def _case(suite: Xml.Element, name: str, verdict: Verdict) -> None:
    metric = verdict.cell.metric.name if verdict.cell.metric else "all metrics"
    case = _named(suite, name, f"{place(verdict)} · {metric}")
    a, b, change = figures(verdict)
    said = f"{verdict.kind}: A {a}, B {b}, change {change}"
    if verdict.kind is VerdictKind.WORSE:
        failure = Xml.SubElement(case, "failure", {"message": _plain(said), "type": "worse"})
        failure.text = _plain(f"{said}; p after Holm {verdict.p_adjusted:.2g}")
    elif verdict.kind in _SKIPPED:
        reason = verdict.reason if verdict.effect is None else f"{said}; {verdict.reason}"
        Xml.SubElement(case, "skipped", {"message": _plain(reason)})
    else:
        reason = f"; {verdict.reason}" if verdict.reason else ""
        Xml.SubElement(case, "system-out").text = _plain(said + reason)


def _named(suite: Xml.Element, of: str, name: str) -> Xml.Element:
    facts = {"classname": _plain(of), "name": _plain(name), "time": "0"}
    return Xml.SubElement(suite, "testcase", facts)


def _plain(text: str) -> str:
    """The text without characters that XML 1.0 cannot hold: messages of a store may contain any."""
    return "".join(c if c in "\t\n" or (c >= " " and not _barred(c)) else "�" for c in text)


def _barred(c: str) -> bool:
    return "\ud800" <= c <= "\udfff" or c in "\ufffe\uffff"
