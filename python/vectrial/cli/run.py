"""`vectrial run`: measure a suite."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import tomli_w
import typer
from rich.console import Console

from vectrial import __version__
from vectrial.cli.run_status import KeptView
from vectrial.cli.run_view import dry_run_table, make_view
from vectrial.datasets import catalog, library
from vectrial.datasets.entry import Entry
from vectrial.datasets.inspect import repeated_queries
from vectrial.datasets.model import Dataset
from vectrial.errors import UserError
from vectrial.experiments.base import fields_of, own_filters
from vectrial.nearest import suggestion
from vectrial.results.bundle import opened
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.stores import registry
from vectrial.stores.base import ALL_OPERATORS
from vectrial.suite.model import DatasetRef, Suite, parse_suite, read_suite
from vectrial.suite.plan import DatasetShape, Plan, make_plan
from vectrial.suite.runner import Outcome, run_plan
from vectrial.telemetry.environment import environment_facts

RESOLVED = "suite.toml"
#: Of datasets, by name and rows.
Fingerprints = Mapping[tuple[str, int], str]


def run(
    suite_path: Annotated[
        Path | None,
        typer.Argument(metavar="SUITE", help="A suite file; see suites/ for ready ones."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only this store (may be repeated).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan with an estimate; measure nothing.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Complete this run: finished trials are kept, failed ones tried again."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Repeat the run that a bundle holds, on the same data, which it lacks."
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="How often everything is done, instead of the suite's."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the report when the run ends.")
    ] = True,
) -> None:
    """Measure a SUITE: every store, every experiment, every repeat, into one run folder.

    \b
    vectrial run suites/demo.toml --dry-run     what would be measured, and how long it takes
    vectrial run suites/demo.toml               measure, then write the report
    vectrial run --resume runs/latest           go on after an interruption
    vectrial run --from their.vectrial.tar.gz   repeat somebody's run here; it brings no data

    Progress goes to stderr; the last line on stdout is the run's folder.
    """
    console = Console(stderr=True)
    suite, text, where, sealed = _suite(suite_path, resume, bundle)
    if repeats is not None:
        suite = suite.model_copy(update={"repeats": repeats})
    if only:
        suite = _restricted(suite, only, where)
    plan = plan_of(suite, where)
    if dry_run:
        Console().print(dry_run_table(plan))
        return
    folder = resume.resolve() if resume is not None else new_folder(out, suite)
    outcome = measure(plan, suite, text, folder, console, sealed)
    try:
        _show(folder, report, console)
        if bundle is not None and outcome.counts.get("ok"):
            _compare(bundle, folder, console)
    finally:
        print(folder)  # it was measured, whatever can be said of it
    if outcome.counts and not set(outcome.counts) - {"failed", "skipped"}:
        sys.exit(1)


def _suite(
    path: Path | None, resume: Path | None, sealed: Path | None
) -> tuple[Suite, str, str, Fingerprints]:
    """The suite, its text, where it is from, and the datasets that it must be measured on."""
    if sum(given is not None for given in (path, resume, sealed)) != 1:
        raise UserError(
            "no suite given" if path is None and resume is None and sealed is None
            else "a SUITE, --resume and --from exclude each other",
            remedy="vectrial run suites/demo.toml",
        )  # fmt: skip
    if path is not None:
        return (*_read(path), str(path), {})
    if resume is not None:
        kept = resume / RESOLVED
        if not kept.is_file():
            raise UserError("there is no run here to resume", where=str(resume))
        return (*_read(kept), str(kept), {})
    assert sealed is not None
    with opened(sealed) as (_, folder):
        kept = folder / RESOLVED
        if not kept.is_file():
            raise UserError(
                f"the bundle holds no {RESOLVED}", where=str(sealed), remedy="have it sealed anew"
            )
        text = kept.read_text(encoding="utf-8")
        suite = parse_suite(text, f"{sealed}: {RESOLVED}")
        with RunReader(folder) as reader:
            rows = reader.rows("select name, rows, fingerprint, metric_space, source from dataset")
    _require_here(suite, rows, sealed)
    same = {(row["name"], row["rows"]): row["fingerprint"] for row in rows}
    return suite, text, str(sealed), same


def _require_here(suite: Suite, measured: Sequence[Mapping[str, Any]], sealed: Path) -> None:
    """Refuse a bundle whose data cannot be had here, saying how they are: it does not hold them.

    measured: the run's datasets.
    """
    known = {row["name"]: row for row in measured}
    for name in [ref.name for ref in suite.datasets if not catalog.knows(ref.name)]:
        row = known.get(name)
        made = f" (made of {row['source']})" if row else ""
        metric = f" --metric {row['metric_space']}" if row else ""
        raise UserError(
            f"the run measured dataset '{name}'{made}, which is neither here nor in the catalogue;"
            " a bundle holds no data",
            where=str(sealed),
            remedy="have the data sent as well, and import them with the options that they were"
            f" imported with there: `vectrial data import FILE --name {name}{metric} …`;"
            " the fingerprint tells whether they are the same",
        )


def _read(path: Path) -> tuple[Suite, str]:
    read_suite(path)
    text = path.read_text(encoding="utf-8")
    return parse_suite(text, str(path)), text


def _restricted(suite: Suite, only: list[str], where: str) -> Suite:
    known = {ref.store for ref in suite.stores}
    for name in only:
        if name not in known:
            raise UserError(
                f"the suite has no store '{name}'", where=where, remedy=suggestion(name, known)
            )
    return suite.model_copy(update={"stores": [r for r in suite.stores if r.store in only]})


def shape_of(ref: DatasetRef) -> DatasetShape:
    """From the library when the dataset is here, else from the catalogue."""
    whole: Dataset | Entry
    if ref.name in library.names():
        whole = library.load(ref.name)
        fields, queries = fields_of(whole), len(whole.queries)
        own = own_filters(whole)
        labels = whole.query_metadata.column_names if whole.query_metadata is not None else []
    else:
        whole = catalog.entry(ref.name)
        fields, queries = whole.fields, whole.queries
        own = (whole.operators or ALL_OPERATORS) if whole.filtered else None
        labels = [field.name for field in whole.query_fields]
    for what, asked, there in (("rows", ref.rows, whole.rows), ("queries", ref.queries, queries)):
        if asked is not None and asked > there:
            raise UserError(
                f"dataset '{ref.name}' has {there:,} {what}, {asked:,} are asked for",
                remedy=f"ask for fewer {what}",
            )
    return DatasetShape(
        ref.name,
        ref.rows or whole.rows,
        whole.dim,
        whole.metric,
        fields if ref.metadata else (),
        own if ref.metadata else None,
        frozenset(labels),
        ref.metadata,
    )


def new_folder(out: Path, suite: Suite) -> Path:
    """Where the run of a suite that begins now is kept, under `out`; it is not made yet."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in suite.name)
    folder = (out / f"{stamp}-{safe}").resolve()
    if folder.exists():
        raise UserError("the run folder exists already", where=str(folder))
    return folder


def plan_of(suite: Suite, where: str) -> Plan:
    """The plan of a suite with the stores and datasets of this machine; see `make_plan`."""
    return make_plan(
        suite,
        where=where,
        load_store=registry.load,
        shape_of=shape_of,
        known_stores=registry.names(),
    )


def measure(
    plan: Plan,
    suite: Suite,
    text: str,
    folder: Path,
    console: Console,
    same: Fingerprints | None = None,
    again: str | None = None,
) -> Outcome:
    """Measure what `folder` does not hold yet of a plan; the suite is kept there as `text`.

    same: what the datasets must be, by name and rows; any where it does not name them.
    again: how one goes on after an interruption, unless by `vectrial run --resume`.

    On Ctrl-C says how to go on, and ends the program.
    """
    signal.signal(signal.SIGTERM, _terminated)
    with RunWriter(folder) as writer, _view(plan, writer, console) as view:
        _begin(writer, suite, text)
        try:
            for ref in plan.datasets:
                dataset = catalog.ensure(ref.name, view.fetching)
                cut = library.subset(dataset, ref.rows, ref.queries, metadata=ref.metadata)
                _require_same(cut, same or {})
                writer.dataset(_dataset_row(cut))
            _point_latest(folder)
            outcome = run_plan(plan, writer, view)
        except KeyboardInterrupt:
            again = again or f"vectrial run --resume {folder}"
            console.print(f"interrupted; go on with: {again}")
            raise SystemExit(130) from None
        writer.finish()
    return outcome


def _view(plan: Plan, writer: RunWriter, console: Console) -> KeptView:
    """What one sees. Trials that an earlier process measured are done from the beginning."""
    before = len(writer.finished_keys() & {trial.row.key for trial in plan.trials})
    return KeptView(plan, make_view(plan, console, before), writer.folder, before)


def _require_same(dataset: Dataset, same: Fingerprints) -> None:
    wanted = same.get((dataset.name, dataset.rows), dataset.fingerprint)
    if dataset.fingerprint != wanted:
        raise UserError(
            f"dataset '{dataset.name}' is not the one that the bundle's run measured: its"
            f" fingerprint is {dataset.fingerprint[:12]}, there it was {wanted[:12]}",
            remedy="fetch it anew (vectrial data fetch), or run the suite without --from",
        )


def _begin(writer: RunWriter, suite: Suite, text: str) -> None:
    """Keep what the run is: the suite, the machine, the command."""
    kept = writer.folder / RESOLVED
    if not kept.exists():
        kept.write_text(_resolved(suite, text), encoding="utf-8")
    environment = environment_facts()
    (writer.folder / "environment.json").write_text(
        json.dumps(environment, indent=2, default=str), encoding="utf-8"
    )
    command = shlex.join(["vectrial", *sys.argv[1:]])
    writer.begin(
        suite_name=suite.name, command=command, version=__version__, environment=environment
    )


def _resolved(suite: Suite, text: str) -> str:
    """The suite as it was run: the file's own text when nothing was changed on the command line."""
    if parse_suite(text, "suite") == suite:
        return text
    return tomli_w.dumps(suite.model_dump(mode="json", exclude_none=True))


def _show(folder: Path, report: bool, console: Console) -> None:
    """The summary on the terminal, and the page."""
    # Imported here: the chart library takes its time, and measuring does not need it.
    from vectrial.report import terminal, write
    from vectrial.report.build import build
    from vectrial.report.data import load

    loaded = load(folder)
    console.print(terminal.summary(loaded))
    if report:
        page = write.write_html(build(loaded), write.made(folder / "report"))
        console.print(f"report: {page}", soft_wrap=True, highlight=False)


def _compare(bundle: Path, folder: Path, console: Console) -> None:
    """What the run says of the one that it repeats."""
    from vectrial.cli.compare import THRESHOLD, share
    from vectrial.compare import write
    from vectrial.compare.build import DEFAULT_METRICS, compare, metrics_of
    from vectrial.compare.cells import Asked
    from vectrial.compare.sides import sides_of

    asked = Asked(metrics_of(DEFAULT_METRICS), (), ())
    sides = sides_of(str(bundle), str(folder), None)
    console.print(write.table(compare(*sides, asked, share(THRESHOLD))))
    console.print(f"again: vectrial compare {bundle} {folder}", soft_wrap=True, highlight=False)


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _dataset_row(dataset: Dataset) -> dict[str, object]:
    metadata = dataset.metadata
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "rows": dataset.rows,
        "dim": dataset.dim,
        "queries": len(dataset.queries),
        "metric_space": str(dataset.metric),
        "raw_bytes": dataset.raw_bytes,
        "metadata_bytes": 0 if metadata is None else metadata.nbytes,
        "source": dataset.provenance.source,
        "licence": dataset.provenance.licence,
        "stand_in_for": dataset.provenance.stand_in_for,
        "facts": json.dumps(
            {**dataset.facts, "repeated_queries": repeated_queries(dataset)}, default=str
        ),
    }


def _point_latest(folder: Path) -> None:
    """`latest` beside the run folder points at it; replaced in one step."""
    link, fresh = folder.parent / "latest", folder.parent / f".latest-{os.getpid()}"
    fresh.symlink_to(folder.name, target_is_directory=True)
    fresh.replace(link)
