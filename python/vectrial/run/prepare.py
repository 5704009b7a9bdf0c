"""Preparation of a run: plan, folder and data of a suite on this machine."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from vectrial.datasets import catalog, library
from vectrial.datasets.catalog.model import Entry
from vectrial.datasets.inspect import extreme_norms, repeated_queries
from vectrial.model.capabilities import ALL_OPERATORS
from vectrial.model.context import fields_of, own_filters
from vectrial.model.dataset import OWN_IDS, QUERIES_ARE_ROWS, Dataset
from vectrial.model.errors import UserError
from vectrial.model.progress import Progress
from vectrial.plan.model import DatasetShape, Plan
from vectrial.plan.plan import make_plan
from vectrial.results.folder import replace_text
from vectrial.results.writer import RunWriter
from vectrial.servers.hosts import why_no_hosts
from vectrial.servers.namespaces import can_cover_folders, why_no_network
from vectrial.servers.provide import check_environment
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, Suite, parse_suite, read_suite
from vectrial.telemetry.environment import environment_facts
from vectrial.util import interrupts
from vectrial.util.file_modes import readable_files
from vectrial.util.file_names import legible_name
from vectrial.util.package_releases import packages_of
from vectrial.util.variants import set_variables
from vectrial.util.version import version

#: Default folder of runs.
RUNS = Path("runs")
#: The suite, in a run folder.
RESOLVED = "suite.toml"
#: Fingerprints of datasets, by name and rows.
Fingerprints = Mapping[tuple[str, int], str]


def plan_of(suite: Suite, where: str) -> Plan:
    """The plan of a suite with the stores and datasets of this machine; see `make_plan`."""
    return make_plan(
        suite,
        where=where,
        load_store=registry.load,
        shape_of=shape_of,
        known_stores=_working_stores(),
    )


def _working_stores() -> Iterator[str]:
    """The stores that can be loaded; they are loaded on first request, since there are thirty."""
    yield from registry.STORES.working()[0]


def shape_of(ref: DatasetRef) -> DatasetShape:
    """The shape of a dataset, from the library or else from the catalogue."""
    whole: Dataset | Entry
    if ref.name in library.names():
        whole = library.load(ref.name)
        fields, queries = fields_of(whole), len(whole.queries)
        own = own_filters(whole)
        labels = whole.query_metadata.column_names if whole.query_metadata is not None else []
        own_ids = "" if whole.own_ids is None else str(whole.facts[OWN_IDS])
        queries_are_rows = bool(whole.facts.get(QUERIES_ARE_ROWS))
        norms = extreme_norms(whole)
    else:
        whole = catalog.entry(ref.name)
        fields, queries = whole.fields, whole.queries
        own = (whole.operators or ALL_OPERATORS) if whole.filtered else None
        labels = [field.name for field in whole.query_fields]
        own_ids, queries_are_rows, norms = "", False, None
    for what, wanted, there in (("rows", ref.rows, whole.rows), ("queries", ref.queries, queries)):
        if wanted is not None and wanted > there:
            raise UserError(
                f"dataset '{ref.name}' has {there:,} {what}, {wanted:,} are asked for",
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
        own_ids,
        ref.rows not in (None, whole.rows),
        queries_are_rows,
        norms,
    )


def new_folder(out: Path | None, suite: Suite) -> Path:
    """The path of a new run folder in `out`, by default `RUNS`; it is not created yet. Runs that
    start in the same second are numbered."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{legible_name(suite.name)}".rstrip("-")
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(folder for one in names if not (folder := ((out or RUNS) / one).resolve()).exists())


def check_machine(plan: Plan, *, is_local: bool = True) -> None:
    """Check that a plan fits this machine and its environment; only the environment if it is
    measured elsewhere.

    Raises:
        UserError: the plan names missing cores or hosts that cannot be made, or an environment
            variable is invalid.
    """
    if is_local:
        plan.suite.placement.resolved()
        if plan.suite.placement.client_machines:
            raise UserError(
                "there are no client machines here",
                where="placement.client_machines",
                remedy="--on ray, where there is a cluster; or leave it out",
            )
    if is_local and plan.suite.hosts is not None and (why := why_no_hosts() or why_no_network()):
        raise UserError(
            f"no simulated hosts can be made here: {why}",
            where="hosts",
            remedy="leave [hosts] out: the nodes of a cluster then share a network",
        )
    there = {(job.store, job.variant) for job in plan.jobs if job.existing is not None}
    for (store, variant), provider in plan.servers.items():
        with set_variables(variant):
            packages_of(store.name, variant)
            check_environment(store, provider, existing=(store, variant) in there)


def prepare(
    plan: Plan,
    writer: RunWriter,
    fetching: Progress,
    suite: Suite,
    text: str,
    same: Fingerprints | None = None,
    environment: Mapping[str, Any] | None = None,
) -> None:
    """Write the suite and the environment, and fetch the datasets. The folder is removed on an
    error.

    fetching: progress of downloads. text: the suite as written. same: fingerprints that the
        datasets must have. environment: facts about the measuring machine; by default this one.
    """
    try:
        _begin(writer, suite, text, environment or environment_facts())
        interrupts.check()  # imports of the database may have swallowed one
        for ref in plan.datasets:
            with readable_files():
                dataset = catalog.ensure(ref.name, fetching)
            if any(one.name == ref.name and one.rows is None for one in plan.suite.datasets):
                rows = {one.rows for one in plan.datasets if one.name == ref.name}
                _require_same_size(dataset, writer.loaded_rows(ref.name), rows)
            cut = library.subset(dataset, ref.rows, ref.queries, metadata=ref.metadata)
            require_same(cut, same or {})
            writer.dataset(_dataset_row(cut))
        _point_latest(writer.folder)
    except Exception:
        writer.discard()
        raise
    except KeyboardInterrupt:
        if not (writer.folder / RESOLVED).is_file():
            writer.discard()
        raise


def _begin(writer: RunWriter, suite: Suite, text: str, environment: Mapping[str, Any]) -> None:
    """Write the suite, the machine and the command."""
    write_suite(writer.folder, suite, text)
    environment = {**environment, "datasets_hidden": can_cover_folders()}
    facts = json.dumps(environment, indent=2, default=str)
    replace_text(writer.folder / "environment.json", facts)
    command = shlex.join(["vectrial", *sys.argv[1:]])
    writer.begin(suite_name=suite.name, command=command, version=version(), environment=environment)


def _require_same_size(dataset: Dataset, before: Set[int], planned: Set[int | None]) -> None:
    """Check that a resumed run has the dataset that it began with. A replaced dataset has another
    size as a whole, and the rows loaded before are not among those loaded now.

    before, planned: the numbers of rows that the run has loaded so far, and will load.

    Raises:
        UserError: the dataset was replaced.
    """
    if before and dataset.rows in planned - before and before - planned:
        raise UserError(
            f"dataset '{dataset.name}' is not what it was when this run began: it has"
            f" {dataset.rows:,} rows, and {max(before):,} were loaded",
            remedy="start a new run, or bring the earlier dataset back",
        )


def require_same(dataset: Dataset, fingerprints: Fingerprints) -> None:
    """Check a dataset, cut as it is loaded, against fingerprints.

    Raises:
        UserError: other rows or other content of this dataset were measured.
    """
    sizes = sorted(rows for name, rows in fingerprints if name == dataset.name)
    if not sizes:
        return
    fingerprint = fingerprints.get((dataset.name, dataset.rows))
    if fingerprint is None:
        there = " and ".join(f"{rows:,}" for rows in sizes)
        raise UserError(
            f"dataset '{dataset.name}' is not the one that the bundle's run measured:"
            f" {dataset.rows:,} rows of it would be loaded, there it was {there}",
            remedy="import it with the options that it was imported with there (--queries, --rows,"
            " --keep), or run the suite without --from",
        )
    if dataset.fingerprint != fingerprint:
        raise UserError(
            f"dataset '{dataset.name}' is not the one that the bundle's run measured: its"
            f" fingerprint is {dataset.fingerprint[:12]}, there it was {fingerprint[:12]}",
            remedy="fetch it anew (vectrial data fetch), import it with the options that it was"
            " imported with there, or run the suite without --from",
        )


def toml_of(suite: Suite) -> str:
    """The suite as TOML text."""
    return tomli_w.dumps(suite.model_dump(mode="json", exclude_none=True))


def write_suite(folder: Path, suite: Suite, text: str) -> None:
    """Write the suite to a run folder. If one exists it stays, except that its number of repeats
    may grow. A selection of stores restricts a call and not the run."""
    path = folder / RESOLVED
    if not path.exists():
        unchanged = parse_suite(text, RESOLVED) == suite
        replace_text(path, text if unchanged else toml_of(suite))
        return
    was = read_suite(path)
    if suite.repeats > was.repeats:
        replace_text(path, toml_of(was.model_copy(update={"repeats": suite.repeats})))


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
            {**dataset.facts, "repeated_queries": repeated_queries(dataset)},
            default=str,
            allow_nan=False,
        ),
    }


def _point_latest(folder: Path) -> None:
    """Point `latest`, beside the run folder, at it; replaced in one step."""
    link, fresh = folder.parent / "latest", folder.parent / f".latest-{os.getpid()}"
    for left in folder.parent.glob(".latest-*"):  # of a run that was killed just here
        pid = left.name.rpartition("-")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            left.unlink(missing_ok=True)
    fresh.symlink_to(folder.name, target_is_directory=True)
    fresh.replace(link)
