"""Files and folders of vectors, in the formats that the field keeps them in.

`open_source` tells the format by suffix and content and returns a `Source`: rows, dimension,
an iterator of checked blocks, and whatever else the file brings (queries, published
neighbours, filters, metadata). Whatever the bytes, reading ends well or with `DataError`.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from vectrial.datasets.checks import check_vectors
from vectrial.datasets.readers import bigann, texmex
from vectrial.datasets.readers.base import Block, Options, Source, reading, unpacked
from vectrial.datasets.readers.hdf5 import open_hdf5
from vectrial.datasets.readers.jsonl import open_jsonl
from vectrial.datasets.readers.numpy_files import open_npy, open_npz
from vectrial.datasets.readers.pairs import is_pair, open_pair
from vectrial.datasets.readers.parquet import open_parquet, open_shards, shard_pattern
from vectrial.datasets.readers.qdrant import is_qdrant, open_qdrant
from vectrial.datasets.readers.vectordbbench import is_vectordbbench, open_vectordbbench
from vectrial.model.errors import DataError, UserError
from vectrial.model.printable import control_character, shown
from vectrial.util.archive import is_archive

__all__ = ["FORMATS", "Block", "Options", "Source", "open_source"]

_Opener = Callable[[Path, Options], Source]

_BY_SUFFIX: dict[str, _Opener] = {
    **dict.fromkeys(texmex.DTYPES, texmex.open_texmex),
    **dict.fromkeys(bigann.DTYPES, bigann.open_bigann),
    **dict.fromkeys((".hdf5", ".h5"), open_hdf5),
    **dict.fromkeys((".parquet", ".pq"), open_parquet),
    **dict.fromkeys((".jsonl", ".ndjson"), open_jsonl),
    ".npy": open_npy,
    ".npz": open_npz,
}
_BY_MAGIC: dict[bytes, _Opener] = {
    b"\x89HDF\r\n\x1a\n": open_hdf5,
    b"\x93NUMPY": open_npy,
    b"PAR1": open_parquet,
}
_MAGIC_OF = {
    **dict.fromkeys((".hdf5", ".h5"), b"\x89HDF\r\n\x1a\n"),
    **dict.fromkeys((".parquet", ".pq"), b"PAR1"),
    ".npy": b"\x93NUMPY",
    ".npz": b"PK",
}
#: Formats in which columns or keys can be chosen.
_WITH_COLUMNS = (open_parquet, open_jsonl, open_shards, open_vectordbbench, open_qdrant)
_ZIP_ERRORS = (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError)

#: What `open_source` reads, for help and messages.
FORMATS = (
    ".hdf5 (ann-benchmarks), .parquet, .jsonl, .npy, .npz, .fvecs, .ivecs, .bvecs,"
    " .fbin, .f16bin, .u8bin, .i8bin, .ibin; folders of VectorDBBench, qdrant, texmex, cuVS or"
    " Parquet shards; tar and zip archives of one of these"
)


def open_source(path: Path, options: Options | None = None) -> Source:
    """Open a file, folder or archive of vectors; close the source after use.

    Raises:
        UserError: there is no such file, the format is not known, or `options` do not fit it.
        DataError: the content is damaged or unusable. Rows are checked as they are read.
    """
    options = options or Options()
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


def _open_file(path: Path, options: Options) -> Source:
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise UserError(f"it cannot be opened: {error.strerror}", where=str(path)) from error
    if not magic:
        raise DataError("the file is empty", where=str(path))
    suffix = path.suffix.lower()
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
    """A command that makes Parquet of a text file; empty for any other file."""
    listed = "select * replace (embedding::float[] as embedding) from"
    query = {
        ".csv": f"{listed} '{path}'",
        ".tsv": f"{listed} read_csv('{path}', delim='\\t')",
        ".json": f"from '{path}'",
    }.get(path.suffix.lower())
    if query is None:
        return ""
    made = f"duckdb.sql(\"{query}\").write_parquet('{path.with_suffix('.parquet')}')"
    column = ", where `embedding` is the column of vectors" if listed in query else ""
    return f"make Parquet of it, in Python: import duckdb; {made}{column}"


def _opened(opener: _Opener, path: Path, options: Options) -> Source:
    if opener not in _WITH_COLUMNS:
        choices = {"--id": options.ids, "--keep": options.keep}
        if opener not in (open_hdf5, open_npz):
            choices["--vectors"] = options.vectors
        wrong = [name for name, value in choices.items() if value is not None]
        if wrong:
            raise UserError(
                f"the format has no columns to choose with {wrong[0]}",
                where=str(path),
                remedy=f"leave {wrong[0]} out",
            )
    return opener(path, options)


def _open_folder(folder: Path, options: Options, archive: Path | None = None) -> Source:
    """archive: what was unpacked into the folder, if anything."""
    for fits, opener in (
        (is_qdrant, open_qdrant),
        (is_vectordbbench, open_vectordbbench),
        (is_pair, open_pair),
    ):
        if fits(folder):
            return _opened(opener, folder, options)
    if any(folder.rglob("*.parquet")):
        if archive is not None:
            _check_one_dataset(folder, archive)
        return _opened(open_shards, folder, options)
    files = [file for file in folder.iterdir() if file.suffix.lower() in _BY_SUFFIX]
    if len(files) == 1:
        return _open_file(files[0], options)
    named = ": " + ", ".join(sorted(file.name for file in files)[:3]) if files else ""
    below = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    if len(below) == 1 and below[0].is_dir():
        return _open_folder(below[0], options, archive)
    what = "the archive" if archive is not None else "the folder"
    raise UserError(
        f"{what} holds several files of vectors{named}" if files else f"no known layout in {what}",
        where=str(archive or folder),
        remedy="name one of the files" if files else f"known: {FORMATS}",
    )


def _check_one_dataset(folder: Path, archive: Path) -> None:
    """Raise unless the Parquet files of an unpacked archive are the shards of one dataset: their
    names differ only in numbers, and no other files of vectors lie beside them."""
    shards: dict[str, Path] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in _BY_SUFFIX and file.is_file():
            parts = file.relative_to(folder).parts
            shards.setdefault(shard_pattern(parts), file.relative_to(folder))
    if len(shards) > 1:
        first, second, *_ = shards.values()
        raise DataError(
            f"the archive holds several datasets: {first} and {second}",
            where=str(archive),
            remedy="unpack it, and import one of them",
        )


def _open_npz_or_archive(path: Path, options: Options) -> Source:
    if zipfile.is_zipfile(path):
        with reading(path, *_ZIP_ERRORS), zipfile.ZipFile(path) as bundle:
            names = bundle.namelist()
        if names and all(name.endswith(".npy") for name in names):
            return _opened(open_npz, path, options)
    with unpacked(path) as (content, cleanup):
        source = _open_folder(content, options, archive=path)
    form = f"{source.format} (archive)"
    return replace(source, path=path, format=form, on_close=(*source.on_close, cleanup))


def _checked(source: Source, options: Options) -> Source:
    """`source` with its queries checked and as float32, and neighbours as int64.

    Neighbours that are not those of its queries among all rows are left out.
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


def _check_column_names(source: Source) -> None:
    """Raise where a metadata column has a name that cannot be printed, or none."""
    for name in source.columns:
        if not name or control_character(name) is not None:
            raise DataError(
                f"a column is called {shown(name)}" if name else "a column has no name",
                where=str(source.path),
                remedy="rename it, or leave it out: --keep names the columns to keep",
            )
