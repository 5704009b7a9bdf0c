"""The output of `vectrial tune`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from vectrial.cli import values
from vectrial.cli.output import plain_table, stdout_console
from vectrial.questions.builds import Candidate
from vectrial.questions.finals import Finals, TuneAnswer
from vectrial.results.folder import CHOSEN
from vectrial.util import formatting

_NUMBERS = ("recall", "QPS", "p99 ms", "memory")


def objects(result: TuneAnswer) -> Iterator[dict[str, Any]]:
    """One object for each build, each point of the front, each last candidate, and the choice."""
    for tried in result.tried:
        build = {"build": tried.number, "state": tried.state, "reason": tried.reason}
        own = {"index": tried.build.kind, "params": dict(tried.build.params)}
        yield {"kind": "build", **build, **_values(tried.best), **own}
    for candidate in result.front:
        yield {"kind": "front", **_values(candidate)}
    for final in () if result.finals is None else result.finals.ranked:
        ratio, low, high = final.ratio_to_fastest or (None, None, None)
        yield {
            "kind": "final",
            "build": final.tried.number,
            **_values(final.candidate),
            "qps_at_recall": final.qps,
            "of_fastest": ratio,
            "of_fastest_low": low,
            "of_fastest_high": high,
            "verdict": None if final.verdict is None else str(final.verdict.kind),
        }
    yield {
        "kind": "choice",
        "recall_floor": result.limits.recall,
        "folder": str(result.folder),
        "finals": None if result.finals is None else str(result.finals.folder),
        "reason": result.reason,
        **_values(result.best),
        "suite": str(result.folder / CHOSEN) if result.suite else None,
        "suite_toml": result.suite or None,
    }


def _values(candidate: Candidate | None) -> dict[str, Any]:
    """All keys, with or without a candidate."""
    return {
        "index": candidate and candidate.build.kind,
        "params": candidate and dict(candidate.build.params),
        "search": candidate and dict(candidate.search),
        "recall_mean": candidate and candidate.recall,
        "qps": candidate and candidate.qps,
        "latency_p99": candidate and candidate.p99_us,
        "rss_growth_bytes": candidate and candidate.memory_bytes,
    }


def print_tables(result: TuneAnswer) -> None:
    """Print the builds, the front, the last candidates, the choice and the run folder on stdout."""
    console = stdout_console()
    builds = _table("build", "index", "state")
    for tried in result.tried:
        cells = _cells(tried.best) if tried.best else ("—",) * 5
        builds.add_row(str(tried.number), tried.build.label, tried.state, *cells, tried.reason)
    console.print(builds)
    console.print("\nbest at each recall, of all builds:")
    front = _table("index")
    best = result.best
    for candidate in result.front:
        note = "the choice" if candidate == best else candidate.fault(result.limits) or ""
        front.add_row(candidate.build.label, *_cells(candidate), note)
    console.print(front)
    if result.finals is not None and result.finals.ranked:
        _print_finals(result.finals, result.limits.recall)
    if best is None:
        print(f"\nno choice: {result.reason}")
    else:
        setting = values.parameter_text(best.search)
        print(f"\nchoice: {best.build.label}, {setting}: {best.qps:,.5g} QPS")
        print(f"measure it again with: vectrial run {shlex.quote(str(result.folder / CHOSEN))}")
        print(f"which is this suite:\n\n{result.suite.strip()}\n")
    print(result.folder)


def _print_finals(finals: Finals, recall: float) -> None:
    at = f"QPS at {formatting.recall(recall).rstrip('0').rstrip('.')}"
    table = plain_table("build", "index", "search", *_NUMBERS, at, "", right=(*_NUMBERS, at))
    for final in finals.ranked:
        table.add_row(
            str(final.tried.number), final.tried.build.label, *_cells(final.candidate),
            f"{final.qps:,.5g}", final.text,
        )  # fmt: skip
    console = stdout_console()
    console.print("\nthe best builds again, in turns, at the least setting within the limits:")
    console.print(table)
    console.print(f"their run: {finals.folder}")


def _table(*left: str) -> Table:
    return plain_table(*left, "search", *_NUMBERS, "", right=_NUMBERS)


def _cells(candidate: Candidate) -> tuple[str, str, str, str, str]:
    memory = candidate.memory_bytes
    return (
        values.parameter_text(candidate.search) or "—",
        f"{candidate.recall:.4f}",
        f"{candidate.qps:,.5g}",
        "—" if candidate.p99_us is None else f"{candidate.p99_us / 1e3:,.3g}",
        "—" if memory is None else f"{memory / 2**20:,.4g} MiB",
    )
