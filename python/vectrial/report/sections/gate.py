"""The gate: what each check demands, who passed it, and what a failure invalidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import Cell, Column, Row, Section, Table, columns, plain_cell
from vectrial.model.trial import CheckResult, Series
from vectrial.util import formatting

#: Scope of the checks on which every figure depends.
EVERYTHING = "everything"
_GROUP = "Scope of the check"


def wrong_stores(run: RunData) -> Iterator[str]:
    """Stores that failed the gate, by the measured figures that the failure invalidates."""
    stores: dict[str, dict[str, None]] = defaultdict(dict)
    for trial in run.trials:
        for check in trial.gate:
            if check.passed is False and check.relevant:
                stores[check.invalidates][run.labels[trial.series]] = None
    for what, names in stores.items():
        of, where = (
            ("", "ranked nowhere") if what == EVERYTHING else (f" for {what}", "not ranked by them")
        )
        who = formatting.list_in_words(sorted(names))
        yield f"{who} failed the correctness gate{of}: shown as wrong, {where}."


def gate(run: RunData) -> Section | None:
    """Checks passed by each store, their demands, the figures they invalidate, and the failures."""
    applied: dict[str, CheckResult] = {}
    found: dict[tuple[str, Series], dict[str, CheckResult]] = defaultdict(dict)
    for trial in run.trials:
        for check in trial.gate:
            applied.setdefault(check.name, check)
            known = found[trial.dataset, trial.series].get(check.name)
            if known is None or (known.passed is not False and check.passed is False):
                found[trial.dataset, trial.series][check.name] = check
    if not applied:
        return None
    scopes = tuple(dict.fromkeys(check.invalidates for check in applied.values()))
    checks = sorted(applied.values(), key=lambda check: scopes.index(check.invalidates))
    blocks = (_answers_table(run, found, scopes), _checks_table(checks))
    return Section(
        "gate",
        "Correctness",
        "Every store must pass correctness checks before it is timed. A failed check invalidates "
        "the figures in its scope: they are shown as wrong (hollow, crossed out) and not ranked. "
        "Other figures remain valid.",
        blocks,
    )


def _answers_table(
    run: RunData,
    found: Mapping[tuple[str, Series], Mapping[str, CheckResult]],
    scopes: Sequence[str],
) -> Table:
    """A table with a row per store and dataset, and a column per scope that checks may
    invalidate."""
    heads = (
        *columns("store", "dataset"),
        *(
            Column(scope.replace(" ", "_"), scope.capitalize(), "", _GROUP, numeric=False)
            for scope in scopes
        ),
    )
    rows = []
    for (dataset, series), answers in found.items():
        cells = [
            _scope_cell([check for check in answers.values() if check.invalidates == scope])
            for scope in scopes
        ]
        wrong = any(c.passed is False and c.invalidates == EVERYTHING for c in answers.values())
        head = (plain_cell(run.labels[series]), plain_cell(dataset))
        rows.append(Row((*head, *cells), "wrong" if wrong else "ok", series))
    rows.sort(key=lambda row: row.tone != "wrong")
    return Table("gate", "Correctness checks by store", heads, tuple(rows))


def _scope_cell(checks: Sequence[CheckResult]) -> Cell:
    """Results of the checks of one scope for one store; details in the note."""
    applied = [check for check in checks if check.passed is not None]
    failed = [check for check in applied if not check.passed]
    note = "; ".join(
        [f"{_check_title(check)}: {check.detail}" for check in failed]
        or dict.fromkeys(check.detail for check in checks if check.passed is None)
    )
    if not applied:
        return Cell("n/a", "", note=note or "not asked", tone="absent")
    if failed:
        names = ", ".join(map(_check_title, failed))
        return Cell("✗", False, f"{names} ({len(failed)} of {len(applied)})", note, tone="wrong")
    return Cell("✓", True, formatting.plural(len(applied), "check"), note)


def _checks_table(checks: Sequence[CheckResult]) -> Table:
    heads = columns("check", invalidates="A failure invalidates", demands="Requirement")
    rows = [
        Row((plain_cell(c.name, _check_title(c)), plain_cell(c.invalidates), plain_cell(c.demands)))
        for c in checks
    ]
    return Table("gate-checks", "Requirements of each check", heads, tuple(rows))


def _check_title(check: CheckResult) -> str:
    return check.name.replace("_", " ")
