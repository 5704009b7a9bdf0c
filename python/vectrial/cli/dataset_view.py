"""A dataset with its facts and its ground truth, as tables and as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from vectrial.cli.output import Format, print_json, stdout_console
from vectrial.model.dataset import OWN_IDS, Dataset, Truth


def print_dataset(dataset: Dataset, form: Format) -> None:
    """Print a dataset with its facts, as a table or as a JSON object."""
    if form is Format.JSONL:
        print_json([dataset_object(dataset)])
    else:
        stdout_console().print(dataset_table(dataset))


def dataset_object(dataset: Dataset) -> dict[str, Any]:
    """A dataset's name, shape, metric, fingerprint, provenance, metadata types and facts."""
    schema = pa.schema([]) if dataset.metadata is None else dataset.metadata.schema
    return {
        "name": dataset.name,
        "rows": dataset.rows,
        "dim": dataset.dim,
        "metric": str(dataset.metric),
        "queries": len(dataset.queries),
        "filters": sum(where is not None for where in dataset.filters or ()),
        "metadata": {field.name: str(field.type) for field in schema},
        "fingerprint": dataset.fingerprint,
        "provenance": asdict(dataset.provenance),
        "facts": dataset.facts,
    }


def dataset_table(dataset: Dataset) -> Table:
    """A table of the dataset and its facts."""
    table = _table(dataset.name)
    for name, text in _lines(dataset):
        table.add_row(name, Text(text))
    return table


def _table(title: str) -> Table:
    table = Table(title=Text(title), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    return table


def truth_objects(dataset: Dataset, truth: Truth) -> Iterator[dict[str, Any]]:
    """One object per query, with the user's own ids if the dataset has them; fewer than k ids if
    fewer rows match."""
    named = _own_ids(dataset)
    for q, count in enumerate(truth.available):
        accepted = truth.accept_ids[truth.accept_offsets[q] : truth.accept_offsets[q + 1]]
        yield {
            "query": q,
            "ids": named(truth.ids[q, :count]),
            "distances": truth.distances[q, :count].tolist(),
            "available": int(count),
            "accepted": named(accepted),
        }


def _own_ids(dataset: Dataset) -> Callable[[NDArray[np.int64]], list[Any]]:
    """A function from ids of rows to the user's own ids, if the dataset has them."""
    own = dataset.own_ids
    if own is None:
        return lambda ids: ids.tolist()
    order = np.argsort(dataset.ids)
    place = dataset.ids[order]
    return lambda ids: own.take(order[np.searchsorted(place, ids)]).to_pylist()


def truth_table(dataset: Dataset, truth: Truth) -> Table:
    """Table of the neighbours' distances, and numbers of queries with too few neighbours, or
    ties."""
    table = _table(f"{dataset.name}, k = {truth.k}")
    table.add_row("queries", f"{len(truth.ids):,}")
    short = int((truth.available < truth.k).sum())
    if short:
        table.add_row("fewer than k rows match", f"{short:,} queries")
    tied = int((np.diff(truth.accept_offsets) > truth.available).sum())
    table.add_row("ties at the k-th", f"{tied:,} queries")
    for label, column in (("nearest", 0), ("k-th", truth.k - 1)):
        far = truth.distances[truth.available > column, column]
        if len(far):
            low, middle, high = np.quantile(far, (0, 0.5, 1))
            text = f"{low:.5g} to {high:.5g}, median {middle:.5g}"
            table.add_row(f"{label} distance ({dataset.metric})", text)
    return table


def _lines(dataset: Dataset) -> list[tuple[str, str]]:
    size = _size(dataset.raw_bytes)
    filtered = sum(where is not None for where in dataset.filters or ())
    queries = f"{len(dataset.queries):,}" + (f", {filtered:,} with a filter" if filtered else "")
    lines = [
        ("vectors", f"{dataset.rows:,} × {dataset.dim:,}, {dataset.metric}, {size}"),
        ("queries", queries),
    ]
    facts = dataset.facts
    for name, label, describe in (
        ("duplicates", "duplicates", _duplicates),
        ("norms", "norms", _norms),
        ("intrinsic_dimension", "intrinsic dimension", _dimension),
        ("shift", "query shift", _shift_text),
        ("published_neighbours", "published neighbours", _published),
    ):
        if facts.get(name):
            lines.append((label, describe(facts[name])))
    if facts.get(OWN_IDS):
        lines.append(("own ids", f"column '{facts[OWN_IDS]}'; rows are numbered"))
    for column, found in facts.get("metadata", {}).items():
        lines.append((f"metadata {column}", _column(found, dataset.rows)))
    source = dataset.provenance
    lines.append(("source", f"{source.source} (licence: {source.licence})"))
    if source.stand_in_for:
        lines.append(("stands in for", source.stand_in_for))
    lines.extend(("note", note) for note in source.notes)
    if dataset.fingerprint:
        lines.append(("fingerprint", dataset.fingerprint[:16]))
    return lines


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _duplicates(found: dict[str, Any]) -> str:
    again = found.get("repeated_queries", 0)  # missing from datasets of earlier versions
    if not found["rows"] and not found["queries"] and not again:
        return "none"
    return (
        f"{found['rows']:,} rows equal an earlier one ({found['groups']:,} groups);"
        f" {found['queries']:,} queries equal a row, {again:,} an earlier query"
    )


def _norms(found: dict[str, Any]) -> str:
    if found["normalised"]:
        return "normalised to 1"
    return f"{found['min']:.4g} to {found['max']:.4g}, median {found['median']:.4g}"


def _dimension(found: dict[str, Any]) -> str:
    if found["median"] is None:
        return "cannot be told: all neighbours lie at one distance"
    low, high = found["quartiles"]
    return (
        f"{found['median']:.1f} (quartiles {low:.1f} to {high:.1f}), from"
        f" {found['neighbours']} neighbours of {found['points']} sampled rows"
    )


def _shift_text(found: dict[str, Any]) -> str:
    verdict = "the queries lie elsewhere than the rows" if found["shifted"] else "none found"
    ratio = found["median_ratio"]
    apart = "" if ratio is None else f", nearest row at {ratio:.2f} times a row's own distance"
    return f"{verdict} (KS {found['ks']:.3f}, p {found['p_value']:.2g}{apart})"


def _published(found: dict[str, Any]) -> str:
    if found["recall"] is None:
        return "none to compare"
    text = f"{100 * found['recall']:.2f} % of the {found['k']} nearest are the exact ones"
    return text if found["recall"] > 0.99 else f"{text}: is the metric the right one?"


def _column(found: dict[str, Any], rows: int) -> str:
    parts = [f"{found['type']}, {found['distinct']:,} values"]
    if found["nulls"]:
        parts.append(f"{100 * found['nulls'] / rows:.3g} % null")
    if found["distinct"] > 20 and "quantiles" in found:
        parts.append(f"{found['quantiles']['0']:g} to {found['quantiles']['1']:g}")
    elif found["distinct"] < rows - found["nulls"]:
        top = (f"{_shorten(value)} {100 * n / rows:.3g} %" for value, n in found["top"][:4])
        parts.append(", ".join(top))
    return "; ".join(parts)


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
