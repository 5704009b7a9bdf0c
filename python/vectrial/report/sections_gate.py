"""The gate: what each check demands, who passed it, and what a failure invalidates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from vectrial.report import text
from vectrial.report.data import Check, RunData, Series
from vectrial.report.document import Block, Cell, Column, Row, Section, Table, Text, plain

#: What is invalidated by checks on which every figure rests.
EVERYTHING = "everything"


def wrong_stores(run: RunData) -> Iterator[str]:
    """Who failed the gate, by what that invalidates, as far as it was measured."""
    stores: dict[str, dict[str, None]] = defaultdict(dict)
    for trial in run.trials:
        for check in trial.gate:
            if check.passed is False and check.relevant:
                stores[check.invalidates][run.labels[trial.series]] = None
    for what, names in stores.items():
        of, where = (
            ("", "ranked nowhere") if what == EVERYTHING else (f" for {what}", "not ranked by them")
        )
        who = text.joined(sorted(names))
        yield f"{who} failed the correctness gate{of}: shown as wrong, {where}."


def gate(run: RunData) -> Section | None:
    """Which checks each store passed, what each demands and invalidates, and the failures."""
    asked: dict[str, Check] = {}
    found: dict[tuple[str, Series], dict[str, Check]] = defaultdict(dict)
    for trial in run.trials:
        for check in trial.gate:
            asked.setdefault(check.name, check)
            known = found[trial.dataset, trial.series].get(check.name)
            if known is None or (known.passed is not False and check.passed is False):
                found[trial.dataset, trial.series][check.name] = check
    if not asked:
        return None
    scopes = list(dict.fromkeys(check.invalidates for check in asked.values()))
    checks = sorted(asked.values(), key=lambda check: scopes.index(check.invalidates))
    blocks: list[Block] = [_answers_table(run, found, checks), _checks_table(checks)]
    failures = tuple(
        f"{run.labels[series]} on {dataset}: {check.name}: {check.detail} "
        f"(invalidates {check.invalidates})"
        for (dataset, series), failed in run.failures.items()
        for check in failed
    )
    if failures:
        blocks.insert(0, Text(failures, "Wrong answers", bullets=True))
    return Section(
        "gate",
        "Which stores answer correctly",
        "Before anything is timed every store is asked questions whose answers are known. What a "
        "failed check invalidates is shown as wrong, not as fast: figures that rest on it are "
        "hollow, crossed out, and on no front; other figures stand.",
        tuple(blocks),
    )


def _answers_table(
    run: RunData, found: Mapping[tuple[str, Series], Mapping[str, Check]], checks: Sequence[Check]
) -> Table:
    columns = (
        Column("store", "Store", numeric=False),
        Column("dataset", "Dataset", numeric=False),
        *(
            Column(
                c.name,
                c.name.replace("_", " "),
                group=f"Invalidates {c.invalidates}",
                numeric=False,
            )
            for c in checks
        ),
    )
    rows = []
    for (dataset, series), answers in found.items():
        cells = [_check_cell(answers.get(check.name)) for check in checks]
        failed = any(c.passed is False and c.invalidates == EVERYTHING for c in answers.values())
        head = (plain(run.labels[series]), plain(dataset))
        rows.append(Row((*head, *cells), "wrong" if failed else "ok", series))
    rows.sort(key=lambda row: row.tone != "wrong")
    return Table("gate", "Correctness checks", columns, tuple(rows))


def _checks_table(checks: Sequence[Check]) -> Table:
    columns = (
        Column("check", "Check", numeric=False),
        Column("invalidates", "A failure invalidates", numeric=False),
        Column("demands", "What it demands", numeric=False),
    )
    rows = [
        Row((plain(c.name, c.name.replace("_", " ")), plain(c.invalidates), plain(c.demands)))
        for c in checks
    ]
    return Table("gate-checks", "What each check demands", columns, tuple(rows))


def _check_cell(check: Check | None) -> Cell:
    if check is None:
        return Cell("n/a", "", note="not asked", tone="absent")
    if check.passed is None:
        return Cell("n/a", "", note=check.detail, tone="absent")
    if check.passed:
        return Cell("✓", True)
    return Cell("✗", False, note=check.detail, tone="wrong")
