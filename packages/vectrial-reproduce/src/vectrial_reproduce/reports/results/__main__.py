"""`python -m vectrial_reproduce.reports.results docs/results`: measure committed results again.

Works through docs/results/results.toml: each stale result is measured and sealed into its folder,
and its pages are generated. Before each measurement the command waits until the machine is quiet.
It can be interrupted at any moment and started again: a run that was begun by the same code is
completed. One that fails does not stop the others.

Exit codes: 0 all that was asked for is committed, 1 something failed, 2 invalid input, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from vectrial.document.render import markdown, terminal
from vectrial.model.errors import VectrialError
from vectrial.report.pages import save
from vectrial.util import formatting, interrupts
from vectrial_reproduce.reports import committed, conclusions
from vectrial_reproduce.reports.results import code, quiet, table
from vectrial_reproduce.reports.results.declarations import CommittedResult, read, select_results
from vectrial_reproduce.reports.results.measure import ResultFolders, measure
from vectrial_reproduce.reports.results.sealed import CommittedState
from vectrial_reproduce.reports.results.sealed import committed_state as state_of

#: Seconds that a run has to stop its servers after Ctrl-C.
_PATIENCE_S = 90.0
_CLAIMS = "claims.md"


def main(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with interrupts.handle_signals():
            interrupts.allow_cleanup(_PATIENCE_S)
            return _list(options) if options.list or options.stale else _measure(options)
    except VectrialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on with it")
        return interrupts.exit_code()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vectrial_reproduce.reports.results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("results", type=Path, help="folder of the results, with results.toml")
    add("--only", action="append", default=[], metavar="NAME", help="only this result (repeatable)")
    add("--all", action="store_true", help="measure results that are not stale, too")
    add("--older", type=int, default=0, metavar="N", help="stale after more than N commits (0)")
    add("--list", action="store_true", help="print what is committed; measure nothing")
    add("--stale", action="store_true", help="print what is stale; measure nothing")
    add("--format", choices=("table", "md", "jsonl"), default="table", help="format of the list")
    add("--no-wait", action="store_true", help="measure on a busy machine, too")
    add("--accept-fewer", action="store_true", help="commit fewer measured trials than before")
    add("--runs", type=Path, default=Path("runs/results"), help="folder of the runs")
    return parser


def _list(options: argparse.Namespace) -> int:
    states = [state_of(one, options.results) for one in _selection(options)]
    if options.stale:
        states = [one for one in states if table.is_stale(one, options.older)]
    if options.format == "jsonl":
        for one in table.objects(states):
            print(json.dumps(one))
    elif options.format == "md":
        print(markdown.render(table.page(states)), end="")
    else:
        console = Console()
        console.width = max(console.width, 160)
        console.print(terminal.render(table.page(states)))
    return 0


def _selection(options: argparse.Namespace) -> list[CommittedResult]:
    return select_results(read(options.results), options.only)


def _measure(options: argparse.Namespace) -> int:
    results = _selection(options)
    places = ResultFolders(options.results, options.runs)
    if changed := code.changes():
        _say(f"! what is measured now has changes that no commit holds: {', '.join(changed)}")
    failed = {}
    for result in results:
        try:
            state = state_of(result, options.results)
            if not options.all and not table.is_stale(state, options.older):
                _say(f"{result.name}: measured by this code on {state.started:%Y-%m-%d}")
                continue
            _say(_status_line(result, state))
            wait = None if options.no_wait else partial(quiet.wait, _say)
            measure(result, places, wait=wait, accept_fewer=options.accept_fewer)
            _pages(result, options.results)
        except VectrialError as error:
            failed[result.name] = str(error)
            _say(f"{result.name}: {error}")
            continue
        _say(f"{result.name}: sealed into {options.results / result.name}")
    return _print_outcome(failed, results)


def _status_line(result: CommittedResult, state: CommittedState) -> str:
    needs = f"; it needs {result.needs}" if result.needs else ""
    if state.started is None:
        return f"{result.name}: measured for the first time{needs}"
    count = table.commits_behind(state)
    age = "by an unknown revision" if count is None else f"{formatting.plural(count, 'commit')} ago"
    took = formatting.seconds(state.duration.total_seconds())
    return f"{result.name}: measured {age}, in {took}; measuring again{needs}"


def _pages(result: CommittedResult, results: Path) -> None:
    """Write the pages that depend on several bundles."""
    if result.is_reproduction:
        found = committed.reproductions(results)
        for one in found:
            save(committed.generate(one), one.place, conclusions.PAGE)
        claims = results.parent / _CLAIMS
        claims.write_text(conclusions.conclusions(found, results, claims.parent), encoding="utf-8")
    if result.pending:
        _say(f"{result.name}: it has a bundle now; remove `pending` from its entry")


def _print_outcome(failed: dict[str, str], results: Sequence[CommittedResult]) -> int:
    for name, why in failed.items():
        _say(f"failed: {name}: {why}")
    if failed:
        _say(f"{len(failed)} of {formatting.plural(len(results), 'result')} failed")
        return 1
    _say("done; docs/results/README.md quotes figures: its tests name those that changed")
    return 0


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
