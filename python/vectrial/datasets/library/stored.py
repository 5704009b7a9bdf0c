"""Datasets on disk: where they lie, what their manifest says, and opening one.

    <name>/dataset.json     metric, provenance, facts, fingerprint, shapes, sha256 of each part
    <name>/vectors.npy      float32 (n, d)        <name>/ids.npy      int64 (n,)
    <name>/queries.npy      float32 (q, d)        <name>/metadata.arrow   Arrow IPC file, n rows
    <name>/filters.jsonl    one filter, or null, per query
    <name>/query_metadata.arrow   Arrow IPC file, q rows

The arrays and the metadata are memory-mapped. The sha256 of an array is that of its elements (the
file after its header); that of the other files is of the whole file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vectrial.datasets.library.parts import damaged, open_array, open_metadata, read_filters
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import DataError, UserError, shown
from vectrial.model.metric import Metric
from vectrial.util import paths
from vectrial.util.suggest import suggestion

#: Of the layout above; a manifest with another is refused.
FORMAT = 1
MANIFEST = "dataset.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def names() -> tuple[str, ...]:
    """Names of all datasets that are here, in order."""
    root = paths.datasets_dir()
    if not root.is_dir():
        return ()
    return tuple(
        sorted(
            folder.name
            for folder in root.iterdir()
            if _NAME.fullmatch(folder.name) and (folder / MANIFEST).is_file()
        )
    )


def path(name: str) -> Path:
    """The folder of a dataset, whether it exists or not.

    Raises:
        UserError: the name is not valid for a dataset.
    """
    if not _NAME.fullmatch(name) or name == "truth":
        raise UserError(
            f"{shown(name)} cannot be a dataset's name",
            remedy="at most 100 of letters, digits, '.', '_' and '-', first a letter or digit;"
            " not 'truth'",
        )
    return paths.datasets_dir() / name


def load(name: str) -> Dataset:
    """The dataset of that name, its arrays and metadata memory-mapped.

    Raises:
        UserError: there is none; the message names the nearest existing name.
        DataError: its files do not fit its manifest.
    """
    return load_from(path(name), name)


def load_from(folder: Path, name: str) -> Dataset:
    """The dataset in a folder that may lie elsewhere, because it is being made; see `load`."""
    manifest = read_manifest(name, folder)
    try:
        return _opened(name, folder, manifest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(folder / MANIFEST, f"{type(error).__name__} {error}") from error


def _opened(name: str, folder: Path, manifest: dict[str, Any]) -> Dataset:
    shapes = manifest["shapes"]
    where = None
    if "filters" in shapes:
        where = read_filters(folder / "filters.jsonl")
        if len(where) != shapes["queries"][0]:
            raise damaged(folder / "filters.jsonl", f"{len(where)} filters")
    return Dataset(
        name=name,
        metric=Metric(manifest["metric"]),
        vectors=open_array(folder / "vectors.npy", np.float32, shapes["vectors"]),
        ids=open_array(folder / "ids.npy", np.int64, shapes["ids"]),
        queries=open_array(folder / "queries.npy", np.float32, shapes["queries"]),
        fingerprint=manifest["fingerprint"],
        provenance=_provenance(manifest["provenance"]),
        metadata=_table("metadata", folder, shapes),
        filters=where,
        query_metadata=_table("query_metadata", folder, shapes),
        facts=manifest["facts"],
    )


def _table(part: str, folder: Path, shapes: dict[str, Any]) -> pa.Table | None:
    if part not in shapes:
        return None
    table = open_metadata(folder / f"{part}.arrow")
    if table.num_rows != shapes[part][0]:
        raise damaged(folder / f"{part}.arrow", f"{table.num_rows} rows")
    return table


def there(name: str) -> Path:
    """The folder of an existing dataset.

    Raises:
        UserError: there is none; the message names the nearest existing name.
    """
    _require(path(name), name)
    return path(name)


def _require(folder: Path, name: str) -> None:
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"there is no dataset named '{name}' here",
            remedy=f"{suggestion(name, names())}; "
            "`vectrial data list` shows all, `vectrial data fetch NAME` gets one, "
            "`vectrial data import FILE` makes one of your own",
        )


def read_manifest(name: str, folder: Path) -> dict[str, Any]:
    """The manifest of the dataset `name` in `folder`.

    Raises:
        UserError: there is none; the message names the nearest existing dataset.
        DataError: it is damaged, or of another layout.
    """
    file = folder / MANIFEST
    _require(folder, name)
    try:
        # Manifests of earlier versions may hold NaN, which is no JSON: it becomes text.
        manifest: dict[str, Any] = json.loads(file.read_bytes(), parse_constant=str)
    except ValueError as error:
        raise damaged(file, f"not JSON: {error}") from error
    needed = {"format", "metric", "provenance", "fingerprint", "shapes", "sha256", "facts"}
    if not isinstance(manifest, dict) or not needed <= set(manifest):
        raise damaged(file, "fields missing")
    if manifest["format"] != FORMAT:
        raise DataError(
            f"layout {manifest['format']} is not layout {FORMAT}, which this version reads",
            where=str(file),
            remedy="fetch or import it again",
        )
    return manifest


def _provenance(value: dict[str, Any]) -> Provenance:
    return Provenance(**{**value, "notes": tuple(value["notes"])})


def write_manifest(folder: Path, value: dict[str, Any]) -> None:
    """Write a manifest into a dataset's folder, atomically."""
    file = folder / MANIFEST
    partial = file.with_name(file.name + ".part")
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(file)
