"""Files and folders of vectors, in the formats that the field keeps them in.

`open_source` tells the format by suffix and content and returns a `VectorSource`: rows, dimension,
an iterator of checked blocks, and whatever else the file brings (queries, published
neighbours, filters, metadata). Whatever the bytes, reading ends well or with `DataError`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vectrial.datasets.checks import check_vectors
from vectrial.datasets.readers import matrices
from vectrial.datasets.readers.base import (
    Block,
    ReaderOptions,
    VectorSource,
    joined,
    reading,
    unpacked,
)
from vectrial.datasets.readers.hdf5 import open_hdf5
from vectrial.datasets.readers.jsonl import open_jsonl
from vectrial.datasets.readers.layout import FileRole, files_of, natural, role_of, whole_sets
from vectrial.datasets.readers.matrices import is_pair, open_pair
from vectrial.datasets.readers.numpy_files import ZIP_ERRORS, open_npy, open_npz
from vectrial.datasets.readers.parquet import open_parquet, open_shards, shard_pattern
from vectrial.datasets.readers.qdrant import is_qdrant, open_qdrant
from vectrial.datasets.readers.text_table import open_text_table
from vectrial.datasets.readers.vectordbbench import is_vectordbbench, open_vectordbbench
from vectrial.model.errors import DataError, UserError, control_character, shown
from vectrial.util.archive import is_archive

__all__ = ["FORMATS", "Block", "ReaderOptions", "VectorSource", "open_source"]

_Opener = Callable[[Path, ReaderOptions], VectorSource]

_TEXT_TABLES = (".csv", ".tsv")
_BY_SUFFIX: dict[str, _Opener] = {
    **dict.fromkeys(matrices.TEXMEX_TYPES, matrices.open_texmex),
    **dict.fromkeys(matrices.BIGANN_TYPES, matrices.open_bigann),
    **dict.fromkeys((".hdf5", ".h5"), open_hdf5),
    **dict.fromkeys((".parquet", ".pq"), open_parquet),
    **dict.fromkeys((".jsonl", ".ndjson"), open_jsonl),
    **dict.fromkeys(_TEXT_TABLES, open_text_table),
    ".npy": open_npy,
    ".npz": open_npz,
}
_BY_MAGIC: dict[bytes, _Opener] = {
    b"\x89HDF\r\n\x1a\n": open_hdf5,
    b"\x93NUMPY": open_npy,
    b"PAR1": open_parquet,
}
_PARQUET = (".parquet", ".pq")
#: Endings of files that are compressed as a whole.
_COMPRESSED = (".gz", ".bz2", ".xz")
_MAGIC_OF = {
    **dict.fromkeys((".hdf5", ".h5"), b"\x89HDF\r\n\x1a\n"),
    **dict.fromkeys((".parquet", ".pq"), b"PAR1"),
    ".npy": b"\x93NUMPY",
    ".npz": b"PK",
}
#: Rows of a file beside that are taken as queries without being asked for.
_MOST_QUERIES = 10_000
#: Formats in which columns or keys can be chosen.
_WITH_COLUMNS: tuple[Callable[..., VectorSource], ...] = (
    *(open_hdf5, open_npz, open_parquet, open_jsonl, open_text_table),
    *(open_shards, open_vectordbbench, open_qdrant),
)

#: What `open_source` reads, for help and messages.
FORMATS = (
    ".hdf5 (ann-benchmarks), .parquet, .jsonl, .csv, .tsv, .npy, .npz, .fvecs, .ivecs, .bvecs,"
    " .fbin, .f16bin, .u8bin, .i8bin, .ibin; folders of VectorDBBench, qdrant, texmex, cuVS or"
    " Parquet shards; tar and zip archives of one of these"
)


def open_source(path: Path, options: ReaderOptions | None = None) -> VectorSource:
    """Open a file, folder or archive of vectors; close the source after use.

    Raises:
        UserError: there is no such file, the format is not known, or `options` do not fit it.
        DataError: the content is damaged or unusable. Rows are checked as they are read.
    """
    options = options or ReaderOptions()
    if options.rows is not None and options.rows < 1:
        raise UserError(f"{options.rows} rows cannot be read", remedy="--rows is at least 1")
    if path.is_dir():
        source = _open_folder(path, options)
    elif path.is_file():
        source = _open_file(path, options)
    else:
        raise UserError("there is no such file or folder", where=str(path))
    try:
        return _checked(source, options)
    except BaseException:
        source.close()
        raise


def _open_file(path: Path, options: ReaderOptions) -> VectorSource:
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise UserError(f"it cannot be opened: {error.strerror}", where=str(path)) from error
    if not magic:
        raise DataError("the file is empty", where=str(path))
    suffix = matrices.suffix_of(path)
    opener = _BY_SUFFIX.get(suffix)
    if opener is None:
        opener = next((one for start, one in _BY_MAGIC.items() if magic.startswith(start)), None)
    if opener is None:
        if is_archive(path):
            return _open_npz_or_archive(path, options)
        raise UserError(
            "the format is not known",
            where=str(path),
            remedy=_converted(path) or f"known: {FORMATS}",
        )
    expected = _MAGIC_OF.get(suffix)
    if expected and not magic.startswith(expected):
        raise DataError(
            f"it begins with {magic[:6]!r}, not with {expected!r} as {suffix} files do",
            where=str(path),
            remedy="it is damaged, or of another format (a web page saved in its place?)",
        )
    return _opened(opener, path, options)


def _converted(path: Path) -> str:
    """A command that converts a JSON file to Parquet; empty for any other file."""
    if path.suffix.lower() != ".json":
        return ""
    made = f"duckdb.sql(\"from '{path}'\").write_parquet('{path.with_suffix('.parquet')}')"
    return f"make Parquet of it, in Python: import duckdb; {made}"


def _opened(opener: _Opener, path: Path, options: ReaderOptions) -> VectorSource:
    return opener(path, _fitting(opener, path, options))


def _fitting(
    opener: Callable[..., VectorSource], path: Path, options: ReaderOptions
) -> ReaderOptions:
    """The options, checked to choose only what the format has.

    Raises:
        UserError: it has no such thing.
    """
    if opener not in _WITH_COLUMNS:
        choices = {"--id": options.ids, "--keep": options.keep, "--vectors": options.vectors}
        wrong = [name for name, value in choices.items() if value is not None]
        if wrong:
            raise UserError(
                f"the format has no columns to choose with {wrong[0]}",
                where=str(path),
                remedy=f"leave {wrong[0]} out",
            )
    return options


def _open_folder(folder: Path, options: ReaderOptions, archive: Path | None = None) -> VectorSource:
    """Open a folder of vectors. archive: the archive that was unpacked into it, if any."""
    for fits, opener in (
        (is_qdrant, open_qdrant),
        (is_vectordbbench, open_vectordbbench),
        (is_pair, open_pair),
    ):
        if fits(folder):
            return _opened(opener, folder, options)
    there = files_of(folder)
    every = [file for file in there if _is_known(file)]
    # Beside vectors in another format, tables are labels or scores.
    every = [file for file in every if _suffix(file) not in _TEXT_TABLES] or every
    below = {file.relative_to(folder).parts[0] for file in every}
    if len(below) == 1 and (only := folder / below.pop()).is_dir():
        return _open_folder(only, options, archive)
    if len(every) == 1 and archive is not None:
        return _open_file(every[0], options)
    roles = _roles(folder, every, archive)
    source = _with_sides(_open_rows(folder, roles[FileRole.ROWS], options), folder, roles, options)
    unknown = [file for file in there if file not in every]
    if not unknown:
        return source
    note = f"passed over: {_listed(folder, unknown)}, of no format that is read beside the others"
    return replace(source, notes=(*source.notes, note))


def _roles(
    folder: Path, every: Sequence[Path], archive: Path | None
) -> Mapping[FileRole, Sequence[Path]]:
    """The files of each role.

    Raises:
        UserError: no file holds rows, or they belong to several datasets.
    """
    what, where = ("the folder", folder) if archive is None else ("the archive", archive)
    if not every:
        raise UserError(f"no known layout in {what}", where=str(where), remedy=f"known: {FORMATS}")
    roles: dict[FileRole, list[Path]] = {role: [] for role in FileRole}
    for file in every:
        roles[role_of(file.relative_to(folder).parts)].append(file)
    rows = roles[FileRole.ROWS]
    if not rows:
        raise UserError(
            f"the names of the files in {what} say that they hold {_named(roles)}, and none rows",
            where=str(where),
            remedy=f"name the file to import: {every[0].name}",
        )
    parquet = archive is None and all(_suffix(file) in _PARQUET for file in rows)
    patterns = {shard_pattern(file.relative_to(folder).parts): file for file in reversed(rows)}
    if whole := whole_sets(rows):
        several, files = "whole datasets", whole
    elif len(patterns) > 1 and not parquet:
        several, files = "files of vectors", list(patterns.values())
    else:
        return roles
    names = sorted((str(file.relative_to(folder)) for file in files), key=natural)[:3]
    raise UserError(
        f"{what} holds several {several}: {', '.join(names)}",
        where=str(where),
        remedy="name one of them" if archive is None else "unpack it, and name one of them",
    )


def _open_rows(folder: Path, rows: Sequence[Path], options: ReaderOptions) -> VectorSource:
    """The rows of a dataset, in one file or in shards."""
    if all(_suffix(file) in _PARQUET for file in rows):
        return open_shards(folder, list(rows), _fitting(open_shards, folder, options))
    if len(rows) == 1:
        return _open_file(rows[0], options)
    return joined(folder, [_open_file(file, options) for file in rows], options)


def _with_sides(
    source: VectorSource,
    folder: Path,
    roles: Mapping[FileRole, Sequence[Path]],
    options: ReaderOptions,
) -> VectorSource:
    """A source with the queries that lie beside its rows; other files are left out and noted."""
    queries, found = roles[FileRole.QUERIES], None
    notes = [
        f"{len(roles[FileRole.ROWS])} files are its rows" if len(roles[FileRole.ROWS]) > 1 else ""
    ]
    if queries and source.queries is None:
        try:
            parts = [_open_file(file, ReaderOptions(vectors=options.vectors)) for file in queries]
            if (count := sum(part.rows for part in parts)) > _MOST_QUERIES:
                raise DataError(f"{count:,} rows", remedy="--queries FILE takes them all the same")
            found = np.concatenate([b.vectors for part in parts for b in part.blocks()])
            if found.shape[1] != source.dim:
                raise DataError(f"they have {found.shape[1]} components", where=str(queries[0]))
            notes.append(f"queries are {_listed(folder, queries)}")
        except UserError as error:
            found = None
            notes.append(f"left out: {_listed(folder, queries)}, whose name is of queries: {error}")
    for role in (FileRole.NEIGHBORS, FileRole.SPLIT):
        if roles[role]:
            notes.append(f"left out: {_listed(folder, roles[role])}, by name {role}")
    return replace(
        source,
        path=folder,
        queries=source.queries if found is None else found,
        notes=(*source.notes, *(note for note in notes if note)),
    )


def _listed(folder: Path, files: Sequence[Path]) -> str:
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0].relative_to(folder)}{more}"


def _named(roles: Mapping[FileRole, Sequence[Path]]) -> str:
    return " and ".join(str(role) for role, files in roles.items() if files)


def _suffix(path: Path) -> str:
    """The suffix that indicates a file's format; for a compressed file, its content's."""
    name = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return matrices.suffix_of(name)


def _is_known(path: Path) -> bool:
    return _suffix(path) in _BY_SUFFIX


def _open_npz_or_archive(path: Path, options: ReaderOptions) -> VectorSource:
    if zipfile.is_zipfile(path):
        with reading(path, *ZIP_ERRORS), zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
        if names and all(name.endswith(".npy") for name in names):
            return _opened(open_npz, path, options)
    with unpacked(path) as (content, cleanup):
        source = _open_folder(content, options, archive=path)
    form = f"{source.format} (archive)"
    return replace(source, path=path, format=form, on_close=(*source.on_close, cleanup))


def _checked(source: VectorSource, options: ReaderOptions) -> VectorSource:
    """`source` with its queries checked and as float32, and neighbours as int64.

    Neighbours are left out unless they are those of its queries among all rows.
    """
    _check_column_names(source)
    if source.queries is None:
        return replace(source, neighbors=None)
    queries = check_vectors(
        source.queries,
        dim=source.dim,
        metric=source.metric,
        first_row=0,
        where=f"{source.path}, queries",
    )
    neighbors = source.neighbors if options.rows is None else None
    if neighbors is not None:
        fits = neighbors.ndim == 2 and len(neighbors) == len(queries)
        neighbors = neighbors.astype(np.int64) if fits else None
    return replace(source, queries=queries, neighbors=neighbors)


def _check_column_names(source: VectorSource) -> None:
    """Raise if the name of a metadata column is empty or cannot be printed."""
    for name in source.columns:
        if not name or control_character(name) is not None:
            raise DataError(
                f"a column is called {shown(name)}" if name else "a column has no name",
                where=str(source.path),
                remedy="rename it, or leave it out: --keep names the columns to keep",
            )
