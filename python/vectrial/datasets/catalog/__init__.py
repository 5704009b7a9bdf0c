"""The catalogue: datasets known by name, where each comes from, and how it is made.

*offline* entries come from package registries and *synthetic* ones from nowhere; both need no
other network. *public* entries come from where the field publishes them. An entry that can be
cut has variants: `glove-words-50-50k` is its first 50,000 rows, fetched and made for
themselves. Synthetic datasets of any size are named by their recipe: `clustered-64-50k`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from vectrial.datasets import library
from vectrial.datasets.catalog.model import (
    CATALOGUES,
    EXAMPLES,
    Cost,
    Entry,
    Kind,
    broken,
    entry_of,
    listed,
)
from vectrial.datasets.library.parts import slices_of
from vectrial.datasets.readers import Block
from vectrial.datasets.sources import published, synthetic
from vectrial.datasets.sources.material import Material
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import DataError, SourceUnavailable, UserError
from vectrial.model.progress import Progress, silent
from vectrial.model.schema import Field, FieldType
from vectrial.util import paths
from vectrial.util.locks import file_lock
from vectrial.util.suggest import suggestion

__all__ = [
    "Cost",
    "Entry",
    "Kind",
    "broken",
    "check_package",
    "ensure",
    "entries",
    "entry",
    "fetch",
    "knows",
    "makes",
]

_VARIANT = re.compile(r"(?P<base>.+)-(?P<rows>\d{1,9})(?P<unit>[km]?)")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
#: Datasets that another package brings and that docs, examples or fallbacks name.
_BROUGHT_BY = dict.fromkeys(
    (
        *("texture-defects-384", "texture-defects-1280", "fashion-outliers-2048"),
        *("wordnet-minilm-384", "wordnet-minilm-384-filtered", "dictionaries-minilm-384"),
        *("fashion-images-2048", "fashion-images-2048-filtered", "fashion-mnist-784", "mnist-784"),
    ),
    "vectrial-datasets",
)


def entries() -> tuple[Entry, ...]:
    """All entries of the catalogue, and examples of variants and synthetic datasets."""
    return (*listed().values(), *map(entry, filter(makes, EXAMPLES)))


def entry(name: str) -> Entry:
    """The entry of that name, variants and synthetic datasets included.

    Raises:
        UserError: there is none; the message names the nearest one, or the package that brings it.
    """
    known = listed()
    if name in known:
        return known[name]
    if recipe := synthetic.parse(name):
        return _synthetic(name, recipe)
    variant = _VARIANT.fullmatch(name)
    if variant and (base := known.get(variant["base"])) and base.can_be_cut:
        return cut(base, int(variant["rows"]) * _UNITS[variant["unit"]], name)
    check_package(name)
    raise UserError(
        f"there is no dataset named '{name}'",
        remedy=f"{suggestion(name, {*known, *EXAMPLES, *library.names()})}"
        " `vectrial data list` shows what there is, `vectrial data import FILE` makes one of your"
        " own vectors".strip(),
    )


def knows(name: str) -> bool:
    """True if a dataset is in the library or the catalogue can make it."""
    return name in library.names() or makes(name)


def makes(name: str) -> bool:
    """True if the catalogue can make the dataset."""
    try:
        entry(name)
    except UserError:
        return False
    return True


def is_made_here(name: str) -> bool:
    """True if the catalogue makes the dataset from packages or a seed, or would if the package that
    brings it were installed. A public dataset may be imported from its files if these cannot be
    fetched."""
    if makes(name):
        return entry(name).kind is not Kind.PUBLIC
    return _missing_package(name) is not None


def check_package(name: str) -> None:
    """Raise `UserError` if a package that is not installed brings the dataset."""
    package = _missing_package(name)
    if package is not None:
        raise UserError(
            f"'{name}' is a dataset of the package {package}, which is not installed",
            remedy=f"pip install {package}",
        )


def _missing_package(name: str) -> str | None:
    """The package that brings a dataset or its variants; None if it is installed, or none does."""
    variant = _VARIANT.fullmatch(name)
    package = _BROUGHT_BY.get(name) or (_BROUGHT_BY.get(variant["base"]) if variant else None)
    if package is None or package in {CATALOGUES.package(group) for group in CATALOGUES}:
        return None
    return package


def cut(base: Entry, rows: int, name: str = "") -> Entry:
    """The variant of an entry with its first `rows` rows, under `name` or `BASE-ROWS`.

    Raises:
        UserError: the entry has fewer rows, or cannot be cut.
    """
    if not base.can_be_cut:
        raise UserError(f"'{base.name}' is made as a whole", remedy="leave out the number of rows")
    if not 1 <= rows <= base.rows:
        raise UserError(
            f"'{base.name}' has {base.rows:,} rows, {rows:,} were asked for",
            remedy=f"a number from 1 to {base.rows}",
        )
    share = rows / base.rows
    download = base.cost.download_mb  # the files come whole
    cost = Cost(download, base.cost.disk_mb * share, base.cost.cpu_s * share)
    name = name or f"{base.name}-{_short(rows)}"
    changed: dict[str, Any] = {"name": name, "rows": rows, "cost": cost, "cut_from": base.name}
    return replace(base, **changed, fingerprint=None, can_be_cut=False)


def ensure(name: str, progress: Progress = silent) -> Dataset:
    """The dataset of that name, from the library if it is there, else fetched.

    Raises:
        UserError: no dataset has that name; the message names the nearest one.
        SourceUnavailable, DataError: it cannot be fetched; says what to do or use instead.
        DataError: the library holds something else under its name.
    """
    if name in library.names():
        return _same(library.load(name))
    return fetch(entry(name), progress)


def _same(dataset: Dataset) -> Dataset:
    """The library's dataset, checked to be the one that the catalogue means by its name."""
    pinned = entry(dataset.name).fingerprint if makes(dataset.name) else None
    if pinned not in (None, dataset.fingerprint):
        raise DataError(
            f"what the library has by this name is not the catalogue's: its fingerprint is"
            f" {dataset.fingerprint[:12]}, and {pinned[:12]} is pinned",
            where=dataset.name,
            remedy=f"remove it (vectrial data remove {dataset.name}), and import data of your own"
            " by another name",
        )
    return dataset


def fetch(requested: Entry, progress: Progress = silent) -> Dataset:
    """Fetch, make and save the dataset of an entry, unless the library has it.

    Raises:
        SourceUnavailable, DataError, UserError: see `ensure`.
    """
    locks = paths.downloads_dir() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    lock = file_lock(
        locks / f"{requested.name}.lock", requested.name, lambda line: progress(0, 0, line)
    )
    with lock:
        if requested.name in library.names():
            return _same(library.load(requested.name))
        try:
            material, checksum = _material(requested, progress)
            progress(0, 0, f"saving {requested.name}")
            dataset = _save(requested, material, checksum)
        except SourceUnavailable as error:
            remedy = "; ".join(filter(None, (error.remedy, _instead(requested))))
            raise SourceUnavailable(error.what, where=error.where, remedy=remedy) from error
        if requested.fingerprint not in (None, dataset.fingerprint):
            library.remove(requested.name)
            raise DataError(
                f"it was made with fingerprint {dataset.fingerprint}, and"
                f" {requested.fingerprint} is pinned",
                where=requested.name,
                remedy="this is a fault of Vectrial or of a library it uses; please report it",
            )
        return dataset


def _instead(requested: Entry) -> str:
    """The remedy if an entry cannot be had, down to a dataset that needs no source at all."""
    drawn = f"clustered-{requested.dim}-50k-{requested.metric}" + (
        "-filtered" if requested.filtered else ""
    )
    if not makes(requested.fallback):
        return f"or use '{drawn}', which needs no source"
    if entry(requested.fallback).kind is Kind.SYNTHETIC:
        return f"or use '{requested.fallback}', which needs no source"
    return f"or use '{requested.fallback}', or '{drawn}', which needs no source"


def _material(requested: Entry, progress: Progress) -> tuple[Material, str]:
    """The material to save, and the checksum that its provenance names."""
    rows = requested.rows if requested.cut_from else None
    if requested.published is not None:
        made, sums = published.material(
            requested.cut_from or requested.name,
            requested.published,
            requested.metric,
            rows,
            progress,
        )
        return made, "; ".join(sums)
    if requested.build is not None:
        sums = tuple(f"{package.name} sha256:{package.sha256}" for package in requested.packages)
        return requested.build(rows, requested.queries, progress), "; ".join(sums)
    recipe = synthetic.parse(requested.name)
    if recipe is None:
        raise UserError(f"'{requested.name}' has no source")
    return synthetic.make(recipe, progress), f"seeded by its name, {requested.name}"


def _save(requested: Entry, material: Material, checksum: str) -> Dataset:
    provenance = Provenance(
        source=requested.source,
        licence=requested.licence,
        checksum=checksum,
        stand_in_for=requested.stand_in_for,
        notes=material.notes,
    )
    with library.Writer(requested.name, requested.metric, provenance) as writer:
        for block in _blocks(material):
            writer.add(block.vectors, ids=block.ids, metadata=block.metadata)
        return writer.finish(
            material.queries, filters=material.filters, query_metadata=material.query_metadata
        )


def _blocks(material: Material) -> Iterable[Block]:
    vectors, metadata = material.vectors, material.metadata
    if not isinstance(vectors, np.ndarray):
        return vectors
    return (
        Block(vectors[rows], metadata=metadata and metadata.slice(rows.start, len(vectors[rows])))
        for rows in slices_of(vectors)
    )


def _synthetic(name: str, recipe: synthetic.SyntheticRecipe) -> Entry:
    kinds = {"random_number": FieldType.INT, "category": FieldType.STRING, "price": FieldType.FLOAT}
    if recipe.columns == "text":
        kinds = {"text": FieldType.STRING}
    megabytes = recipe.rows * recipe.dim * 4 / 1e6
    return entry_of(
        Kind.SYNTHETIC,
        name,
        f"seeded random vectors, {recipe.shape}",
        shape=(recipe.rows, recipe.dim, recipe.metric, synthetic.QUERIES),
        source="drawn here, from a seed",
        licence="none needed",
        cost=Cost(0, megabytes, megabytes / 100),
        fields=tuple(Field(*item) for item in kinds.items()) if recipe.columns else (),
        filtered=recipe.columns == "filtered",
    )


def _short(rows: int) -> str:
    for unit in ("m", "k"):
        if rows % _UNITS[unit] == 0:
            return f"{rows // _UNITS[unit]}{unit}"
    return str(rows)
