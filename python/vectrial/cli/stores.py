"""`vectrial stores`: the stores, their capabilities, and whether each works here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from vectrial.cli import options
from vectrial.cli.output import Format, plain_table, print_json, stderr_console, stdout_console
from vectrial.model.availability import Availability
from vectrial.model.capabilities import ALL_OPERATORS, Capabilities, IndexKind, Params
from vectrial.model.errors import PluginError
from vectrial.model.existing import Attaching
from vectrial.model.lane import lanes_of
from vectrial.model.progress import LineProgress
from vectrial.model.store import Store
from vectrial.run.redact import Secrecy
from vectrial.servers.local import variable_name
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.util import environments
from vectrial.worker.probe import probe


def stores(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="STORE", help="Show only these stores, in full."),
    ] = None,
    form: options.FormatOption = Format.TABLE,
    with_probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Test each installed store: start its server, load a thousand rows, search through"
            " every lane and run the gate. Takes seconds to minutes per store.",
        ),
    ] = False,
) -> None:
    """List the stores, their capabilities, and whether each works on this machine.

    \b
    vectrial stores                          a table of all
    vectrial stores faiss                    its indexes, parameters and caveats
    vectrial stores --probe                  test each installed store
    vectrial stores --format jsonl | jq -r 'select(.works == false) | .remedy'

    Exit codes: 0 success, 1 a tested store does not work, 2 invalid input.
    """
    facts = []
    with stderr_console().status("") as status:
        for name in names or registry.names():
            status.update(f"{'testing' if with_probe else 'looking at'} {name} …")

            def progress(line: str, name: str = name) -> None:
                status.update(f"{name}: {escape(line)}")

            facts.append(_facts(name, with_probe, progress))
    if form is Format.JSONL:
        print_json(facts)
    elif names:
        for store in facts:
            _describe(store)
    else:
        _tabulate(facts)
    if any(store["probe"] and not store["probe"]["works"] for store in facts):
        raise typer.Exit(1)


def _facts(name: str, with_probe: bool, progress: LineProgress) -> dict[str, Any]:
    try:
        store = registry.load(name)
    except PluginError as error:  # the other stores are listed
        nothing: dict[str, Any] = {"kind": None, "provider": None, "lanes": [], "capabilities": {}}
        remedy = "repair or uninstall its package"
        unusable = {"works": False, "reason": str(error), "remedy": remedy, "probe": None}
        return {"store": name, **nothing, **unusable}
    available, choice = registry.availability_with_server(store)
    facts: dict[str, Any] = {
        "store": name,
        "kind": store.kind,
        "provider": None if choice is None else str(choice.provider),
        "works": available.works,
        "reason": available.reason,
        "lanes": [str(lane) for lane in lanes_of(store)],
        "capabilities": _capabilities(store.capabilities),
        "title": store.title,
        "remedy": _remedy(store, available),
        "why": None if choice is None else choice.why,
        "version": _installed_version(store) if available.works else None,
        "tested": list(store.tested),
        "environment": store.environment.name if store.environment else None,
        "probe": None,
    }
    if with_probe and (available.works or (available.works is None and choice is not None)):
        outcome = probe(store, progress)
        detail = Secrecy.for_stores([store]).text(outcome.detail)
        facts["probe"] = {"works": outcome.works, "detail": detail}
        facts["version"] = outcome.version or facts["version"]
    return facts


def _remedy(store: type[Store], available: Availability) -> str:
    """A hint on how to make a store work, or how to prepare it before its first use."""
    if available.works or available.remedy or store.server is None:
        return available.remedy
    if available.works is None:
        return f"nothing to do; beforehand: vectrial up {store.name}"
    recipe = recipe_of(store)
    assert recipe is not None
    return f"start it yourself and set {variable_name(recipe, 'address')}; see docs/servers.md"


_FLAGS = (
    "nulls",
    "payload_index",
    "find_brings_rows",
    "get",
    "scan",
    "upsert",
    "delete",
    "persistent",
    "concurrent_search",
    "inserts_after_build",
    "refuses_duplicates",
)


def _capabilities(can: Capabilities) -> dict[str, Any]:
    hybrid = can.hybrid
    fusions = {} if isinstance(hybrid, str) else hybrid.fusions
    return {
        "metrics": {str(metric): str(score) for metric, score in can.scores.items()},
        "indexes": {label: _index(kind) for label, kind in can.indexes.items()},
        "filters": sorted(can.filters),
        "find": sorted(can.find),
        "field_types": sorted(can.field_types),
        **{flag: getattr(can, flag) for flag in _FLAGS},
        "filters_need_index": can.filters_need_index,
        "partitions": can.partitions,
        "returns": sorted(can.returns),
        "durability": {str(promise): how for promise, how in can.durability.items()},
        "hybrid": {
            "fusions": {str(fusion): how for fusion, how in fusions.items()},
            "text": None if isinstance(hybrid, str) else hybrid.text,
            "reason": hybrid if isinstance(hybrid, str) else None,
        },
        "existing": None if can.existing is None else _existing(can.existing),
        "caveats": list(can.caveats),
    }


def _existing(support: Attaching) -> dict[str, Any]:
    return {"settings": sorted(support.settings), "condition": support.condition}


def _index(kind: IndexKind) -> dict[str, Any]:
    return {
        "exact": kind.exact,
        "build": _defaults(kind.build),
        "search": _defaults(kind.search),
        "metrics": sorted(kind.metrics) if kind.metrics is not None else None,
        "filters": sorted(kind.filters) if kind.filters is not None else None,
        "unsupported": sorted(kind.unsupported),
        "exact_scores": kind.exact_scores,
    }


def _defaults(model: type[Params]) -> dict[str, Any]:
    fields = model.model_fields.items()
    return {name: None if field.is_required() else field.default for name, field in fields}


def _installed_version(store: type[Store]) -> str | None:
    """The version of the store's package, without importing it."""
    if store.module is None:
        return None
    if store.environment is not None:
        inside = environments.environment_folder(store.environment).glob(
            "lib/python*/site-packages"
        )
        found = metadata.distributions(name=store.module, path=[str(path) for path in inside])
        return next((one.version for one in found), None)
    packages = metadata.packages_distributions().get(store.module.split(".")[0], [])
    return metadata.version(packages[0]) if packages else None


# -- on a terminal -----------------------------------------------------------------------------


#: Columns of a terminal from which the metrics have a column; below they are in a line.
_WIDE = 100


def _tabulate(facts: list[dict[str, Any]]) -> None:
    """Print a table of the stores; below it, reason and remedy for those that do not work."""
    console = stdout_console(markup=True)
    wide = console.width >= _WIDE
    columns = ["store", "runs as", "works", "version", *["metrics"] * wide, "indexes"]
    table = plain_table(*columns, whole=("store", "runs as", "works", "version", "metrics"))
    for store in facts:
        can = store["capabilities"]
        table.add_row(
            f"[bold]{escape(store['store'])}[/]",
            store["provider"] or store["kind"] or "",
            _works(store),
            escape(store.get("version") or ""),
            *[" ".join(can.get("metrics", {}))] * wide,
            " ".join(can.get("indexes", {})),
        )
    console.print(table)
    if not wide:
        console.print(f"\n{escape(_metrics(facts))}")
    for (works, reason, remedy), names in _reasons(facts).items():
        console.print(f"\n{works}  [bold]{escape(', '.join(names))}[/]")
        console.print(Padding(escape(reason), (0, 0, 0, 2), expand=False))
        if remedy:
            console.print(Padding(f"[bold]→[/] {escape(remedy)}", (0, 0, 0, 2), expand=False))


def _metrics(facts: list[dict[str, Any]]) -> str:
    """One line about the metrics: all that exist, and the stores that lack some."""
    own = {store["store"]: list(store["capabilities"].get("metrics", {})) for store in facts}
    most: list[str] = max(own.values(), key=len, default=[])
    fewer = [f"{name} ({' '.join(has)})" for name, has in own.items() if has and has != most]
    return f"Metrics: {' '.join(most)}" + (f"; fewer: {', '.join(fewer)}" if fewer else "")


def _reasons(facts: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[str]]:
    """Names of stores that do not work, or only on demand, grouped by state, reason and remedy."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for store in facts:
        if reason := _reason(store):
            key = (_works(store), reason, store.get("remedy") or "")
            found.setdefault(key, []).append(store["store"])
    return found


def _works(store: dict[str, Any]) -> str:
    if store["probe"] is not None:
        return "[green]tested[/]" if store["probe"]["works"] else "[red]no[/]"
    words = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]on demand[/]"}
    return words[store["works"]]


def _reason(store: dict[str, Any]) -> str:
    """The reason why a store does not work, or works only on demand; empty if it works."""
    if store["probe"] is not None:
        return "" if store["probe"]["works"] else str(store["probe"]["detail"])
    return "" if store["works"] else str(store["reason"])


def _describe(store: dict[str, Any]) -> None:
    """Print all facts of a store."""
    console = stdout_console(markup=True)
    console.print(f"[bold]{escape(store['store'])}[/]  {escape(store.get('title', ''))}")
    texts = (_reason(store), store["remedy"])
    works = ": ".join([_works(store), *(escape(text) for text in texts if text)])
    rows = [("works", works), *((label, escape(text)) for label, text in _details(store))]
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in rows:
        table.add_row(f"  [dim]{escape(label)}[/]", text)
    console.print(table)


def _details(store: dict[str, Any]) -> Iterator[tuple[str, str]]:
    can = store["capabilities"]
    if can:
        if store["provider"] is not None:
            yield "server", ": ".join(filter(None, (store["provider"], store["why"])))
        yield "version", store["version"] or ""
        if store["tested"]:
            yield "tested with", ", ".join(f"{version}*" for version in store["tested"])
        yield "lanes", " ".join(store["lanes"])
        yield "metrics", ", ".join(f"{m} (scores: {kind})" for m, kind in can["metrics"].items())
        for label, index in can["indexes"].items():
            yield f"index {label}", _index_line(index)
        yield "filters", _operators(can["filters"])
        yield "find", _operators(can["find"])
        yield "columns", " ".join(can["field_types"]) or "none"
        if can["partitions"]:
            yield "partitions", can["partitions"]
        yield "returns", " ".join(can["returns"])
        for label, value in (("has", True), ("has not", False)):
            yield label, " ".join(f.replace("_", "-") for f in _FLAGS if can[f] is value)
        hybrid = can["hybrid"]
        if hybrid["fusions"]:
            yield from ((f"fusion {name}", how) for name, how in hybrid["fusions"].items())
            yield "words of texts", hybrid["text"]
        else:
            yield "hybrid", f"none: it {hybrid['reason']}"
        if can["existing"] is not None:
            left = " ".join(can["existing"]["settings"])
            fixed = f"; {left} as the collection has it" if left else ""
            if condition := can["existing"]["condition"]:
                fixed += f"; rows with a condition such as --where '{condition}'"
            yield "existing collections", f"read-only, by vectrial run --existing{fixed}"
        yield from (("caveat", text) for text in can["caveats"])
        yield from (("durability", f"{k}: {how}") for k, how in can["durability"].items())
    if store["probe"]:
        yield "probe", store["probe"]["detail"]


def _operators(names: list[str]) -> str:
    return "all" if set(names) == ALL_OPERATORS else " ".join(names) or "none"


def _index_line(index: dict[str, Any]) -> str:
    def settings(of: dict[str, Any]) -> str:
        values = {n: "automatic" if value is None else value for n, value in of.items()}
        return ", ".join(f"{name} = {value}" for name, value in values.items())

    parts = ["exact" if index["exact"] else "approximate"]
    parts += [f"build: {settings(index['build'])}"] if index["build"] else []
    parts += [f"search: {settings(index['search'])}"] if index["search"] else []
    parts += [f"only {', '.join(index['metrics'])}"] if index["metrics"] else []
    parts += [f"without {', '.join(index['unsupported'])}"] if index["unsupported"] else []
    return "; ".join(parts)
