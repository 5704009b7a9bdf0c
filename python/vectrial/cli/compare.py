"""`vectrial compare`: verdicts between two runs, or two stores of a run."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vectrial.cli import options
from vectrial.cli.output import print_json, stdout_console
from vectrial.model.errors import UserError

if TYPE_CHECKING:
    from vectrial.compare.build import Comparison


THRESHOLD = "5%"


class CompareFormat(StrEnum):
    """Output of a comparison."""

    TABLE = "table"
    JSONL = "jsonl"
    MARKDOWN = "md"
    JUNIT = "junit"


class FailOn(StrEnum):
    """Verdicts that end the command with exit code 1."""

    WORSE = "worse"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not-comparable"


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="Baseline: RUN, a bundle, or RUN:STORE.")],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="RUN or RUN:STORE; omit it to compare two stores of A."),
    ] = None,
    store: options.StoresOption = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="Metric to compare (repeatable): qps, p50, p99, recall, build_s, ready_s, disk,"
            " memory, or any metric of the results.",
            show_default="qps p99 sustained_qps ready_s disk",
        ),
    ] = None,
    recall: Annotated[
        list[float] | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="Compare searches at this recall (repeatable).",
            show_default="0.9 0.95 0.99, where both reach them",
        ),
    ] = None,
    experiment: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Compare only this experiment (repeatable)."),
    ] = None,
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="Differences within this share of A are ties.")
    ] = THRESHOLD,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            help="Exit with 1 on such a verdict (repeatable), or if nothing could be compared."
            " Results of one side only are not comparable."
        ),
    ] = None,
    form: Annotated[
        CompareFormat,
        typer.Option(
            "--format",
            "-f",
            help="Output format. jsonl: one object per verdict. md: a comment for a pull request."
            " junit: XML for continuous integration.",
        ),
    ] = CompareFormat.TABLE,
) -> None:
    """Compare B against A: better, worse, tie, undecided, or not comparable, with the reason.

    \b
    vectrial compare runs/before runs/after               each store with itself
    vectrial compare before after --store weaviate        one of them
    vectrial compare runs/latest --store faiss --store hnswlib
    vectrial compare runs/latest:redis runs/other:milvus  stores of two runs
    vectrial compare before after --metric p99 --fail-on worse

    Searches are compared at equal recall and equal load, on each store's measured curve, without
    extrapolation. Better and worse are shown by the repeats; a tie is an interval that lies within
    the threshold; undecided comes with the number of repeats that would likely decide it. A verdict
    needs at least three repeats per side; the repeat is the unit of the
    test, not the request. To compare stores, put them into one suite with order = "turns",
    because the machine changes between two runs.

    Exit codes: 0 success, 1 as set by --fail-on, 2 invalid input.
    """
    # Imported here: the readers of results take a while.
    from vectrial.compare import document
    from vectrial.compare.build import DEFAULT_METRICS, metrics_of
    from vectrial.compare.build import compare as comparison_of
    from vectrial.compare.cells import CompareOptions
    from vectrial.compare.formats import junit
    from vectrial.compare.sides import sides_of
    from vectrial.document.render import markdown, terminal
    from vectrial.results.foreign import foreign_value_errors

    scope = CompareOptions(
        metrics_of(metric or DEFAULT_METRICS), tuple(recall or ()), _experiments(experiment or [])
    )
    minimum = share(threshold)
    with foreign_value_errors(" and ".join(filter(None, (a, b)))):
        comparison = comparison_of(*sides_of(a, b, store or ()), scope, minimum)
    match form:
        case CompareFormat.TABLE:
            stdout_console().print(terminal.render(document.report(comparison)))
        case CompareFormat.JSONL:
            print_objects(comparison)
        case CompareFormat.MARKDOWN:
            print(markdown.render(document.comment(comparison), level=3), end="")
        case CompareFormat.JUNIT:
            print(junit(comparison), end="")
    why = failure(comparison, fail_on or [])
    if why:
        print(f"vectrial: {why}", file=sys.stderr)
        sys.exit(1)


def print_objects(comparison: Comparison) -> None:
    """Print a comparison on stdout as JSON lines; docs/compare.md explains them."""
    from vectrial.compare.formats import objects

    print_json(objects(comparison))


def failure(comparison: Comparison, fail_on: list[FailOn]) -> str:
    """The reason for exit code 1; empty for success."""
    from vectrial.stats.verdict import VerdictKind

    if not fail_on:
        return ""
    if all(v.kind is VerdictKind.NOT_COMPARABLE for v in comparison.verdicts):
        return "nothing could be compared, so that nothing was passed"
    kinds = {one: VerdictKind(one.value.replace("-", " ")) for one in FailOn}
    found = [
        f"{len(vs)} {kinds[one]}" for one in fail_on if (vs := comparison.with_kind(kinds[one]))
    ]
    if FailOn.NOT_COMPARABLE in fail_on:
        found += comparison.alone
    return ", ".join(found)


def share(text: str) -> float:
    """'5%' or '0.05' as 0.05.

    Raises:
        UserError: it is not a number, negative, or 100 % or more.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if rest.strip() or not 0 <= value < 1:
        raise UserError(
            f"'{text}' is not a share of 0 to below 100 %",
            where="--threshold",
            remedy="write 5% or 0.05",
        )
    return value


def _experiments(names: list[str]) -> tuple[str, ...]:
    from vectrial.experiments.registry import EXPERIMENTS
    from vectrial.util.suggest import suggestion

    for name in names:
        if name not in EXPERIMENTS:
            raise UserError(
                f"'{name}' is not an experiment",
                where="--experiment",
                remedy=suggestion(name, EXPERIMENTS),
            )
    return tuple(names)
