"""`vectrial stores`: what there is, what works on this machine, and why not."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vectrial import environments
from vectrial.cli.form import Form, FormOption
from vectrial.errors import StoreError
from vectrial.stores import registry
from vectrial.stores.base import ALL_OPERATORS, IndexKind, Params, Store
from vectrial.stores.probe import probe


def stores(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STORE]...", help="Only these, with everything known of each."),
    ] = None,
    form: FormOption = Form.TABLE,
    try_them: Annotated[
        bool,
        typer.Option("--probe", help="Load a thousand rows into each and search; a few seconds."),
    ] = False,
) -> None:
    """What stores there are, what each can do, and whether it works on this machine.

    [dim]Examples:[/]

        vectrial stores                          a table of all
        vectrial stores faiss                    its indexes, parameters and peculiarities
        vectrial stores --probe                  try each that is installed
        vectrial stores --format jsonl | jq -r 'select(.works == false) | .reason'
    """
    facts = []
    with Console(stderr=True).status("") as status:
        for name in names or registry.names():
            status.update(f"{'trying' if try_them else 'looking at'} {name} …")
            facts.append(_facts(name, try_them))
    if form is Form.JSONL:
        for store in facts:
            print(json.dumps(store, ensure_ascii=False))
    elif names:
        for store in facts:
            _describe(store)
    else:
        _tabulate(facts)
    if any(store["probe"] and not store["probe"]["works"] for store in facts):
        raise typer.Exit(1)


def _facts(name: str, try_it: bool) -> dict[str, Any]:
    try:
        store = registry.load(name)
    except StoreError as error:  # its module is broken: say so and show the others
        return {"store": name, "works": False, "reason": str(error), "probe": None}
    available = registry.availability(store)
    can = store.capabilities
    facts: dict[str, Any] = {
        "store": name,
        "title": store.title,
        "kind": store.kind,
        "works": available.works,
        "reason": available.reason,
        "version": _installed_version(store) if available.works else None,
        "environment": store.environment.name if store.environment else None,
        "metrics": {str(metric): str(score) for metric, score in can.scores.items()},
        "indexes": {label: _index_facts(kind) for label, kind in can.indexes.items()},
        "filters": sorted(can.filters),
        "find": sorted(can.find),
        "field_types": sorted(can.field_types),
    }
    for flag in _FLAGS:
        facts[flag] = getattr(can, flag)
    facts["differences"] = list(can.differences)
    facts["probe"] = None
    if try_it and available.works:
        outcome = probe(store)
        facts["probe"] = {"works": outcome.works, "detail": outcome.detail}
        facts["version"] = outcome.version or facts["version"]
    return facts


_FLAGS = (
    "nulls",
    "payload_index",
    "get",
    "scan",
    "upsert",
    "delete",
    "persistent",
    "concurrent_search",
    "inserts_after_build",
    "refuses_duplicates",
)


def _index_facts(kind: IndexKind) -> dict[str, Any]:
    return {
        "exact": kind.exact,
        "build": _defaults(kind.build),
        "search": _defaults(kind.search),
        "metrics": sorted(kind.metrics) if kind.metrics is not None else None,
        "filters": sorted(kind.filters) if kind.filters is not None else None,
        "lacks": sorted(kind.lacks),
        "exact_scores": kind.exact_scores,
    }


def _defaults(model: type[Params]) -> dict[str, Any]:
    return {
        name: None if field.is_required() else field.default
        for name, field in model.model_fields.items()
    }


def _installed_version(store: type[Store]) -> str | None:
    """The version of the package that brings the store's library, without importing it."""
    if store.module is None:
        return None
    if store.environment is not None:
        inside = environments.path(store.environment).glob("lib/python*/site-packages")
        for found in metadata.distributions(name=store.module, path=[str(p) for p in inside]):
            return found.version
        return None
    packages = metadata.packages_distributions().get(store.module.split(".")[0], [])
    return metadata.version(packages[0]) if packages else None


# -- on a terminal -----------------------------------------------------------------------------


def _tabulate(facts: list[dict[str, Any]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("store", "works", "version", "metrics", "indexes", "filters", "without"):
        table.add_column(title, overflow="fold", no_wrap=title == "store")
    for store in facts:
        table.add_row(
            f"[bold]{escape(store['store'])}[/]",
            _works(store) if store["works"] is not None else "[yellow]on demand[/]",
            escape(store.get("version") or ""),
            " ".join(store.get("metrics", {})),
            " ".join(store.get("indexes", {})),
            _operators(store.get("filters", [])),
            escape(", ".join(_missing(store))),
        )
    console = Console()
    console.print(table)
    if any(store["works"] is None for store in facts):
        console.print(
            "\n[yellow]on demand[/]: its own environment is made on first use, or beforehand by: "
            "make setup-stores"
        )


def _works(store: dict[str, Any]) -> str:
    outcome = store["probe"]
    if outcome is not None:
        return "[green]tried[/]" if outcome["works"] else f"[red]no[/]: {escape(outcome['detail'])}"
    if store["works"]:
        return "[green]yes[/]"
    colour, word = ("yellow", "on demand") if store["works"] is None else ("red", "no")
    return f"[{colour}]{word}[/]: {escape(store['reason'])}"


def _operators(names: list[str]) -> str:
    if set(names) == ALL_OPERATORS:
        return "all"
    return escape(" ".join(names)) or "none"


def _missing(store: dict[str, Any]) -> list[str]:
    words = {
        "persistent": "persistence",
        "upsert": "upsert",
        "delete": "delete",
        "get": "get",
        "scan": "scan",
        "concurrent_search": "concurrent search",
        "inserts_after_build": "inserts after build",
    }
    return [word for flag, word in words.items() if store.get(flag) is False]


def _describe(store: dict[str, Any]) -> None:
    console = Console()
    console.print(f"[bold]{escape(store['store'])}[/]  {escape(store.get('title', ''))}")
    rows: list[tuple[str, str]] = [("works", _works(store))]
    if "indexes" in store:
        rows.append(("version", escape(store["version"] or "")))
        scores = [f"{metric} (scores: {kind})" for metric, kind in store["metrics"].items()]
        rows.append(("metrics", ", ".join(scores)))
        for label, index in store["indexes"].items():
            rows.append((f"index {label}", escape(_index_line(index))))
        rows.append(("filters", _operators(store["filters"])))
        rows.append(("find", _operators(store["find"])))
        rows.append(("columns", " ".join(store["field_types"]) or "none"))
        rows.append(("has", " ".join(f.replace("_", "-") for f in _FLAGS if store[f])))
        rows.append(("has not", " ".join(f.replace("_", "-") for f in _FLAGS if not store[f])))
        rows += [("difference", escape(text)) for text in store["differences"]]
    if store["probe"]:
        rows.append(("probe", escape(store["probe"]["detail"])))
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in rows:
        table.add_row(f"  [dim]{escape(label)}[/]", text)
    console.print(table)


def _index_line(index: dict[str, Any]) -> str:
    def settings(of: dict[str, Any]) -> str:
        return ", ".join(f"{name} = {_shown(value)}" for name, value in of.items())

    parts = ["exact" if index["exact"] else "approximate"]
    parts += [f"build: {settings(index['build'])}"] if index["build"] else []
    parts += [f"search: {settings(index['search'])}"] if index["search"] else []
    parts += [f"only {', '.join(index['metrics'])}"] if index["metrics"] else []
    parts += [f"without {', '.join(index['lacks'])}"] if index["lacks"] else []
    return "; ".join(parts)


def _shown(value: Any) -> str:
    return "automatic" if value is None else str(value)
