"""What the files of a folder are for: rows, queries, true neighbours, another split, or no data.

Names tell: `query.public.10K.fbin` and `test-00000-of-00001.parquet` are of queries,
`groundtruth.ibin` of neighbours. Files and folders whose names begin with a dot or an underscore
are of programs (Spark, Jupyter, Finder), and no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from vectrial.model.errors import UserError


class FileRole(StrEnum):
    """Content of a file of a dataset."""

    ROWS = "rows"
    QUERIES = "queries"
    NEIGHBORS = "neighbours"
    SPLIT = "another split"


_WORDS = {
    FileRole.QUERIES: frozenset({"query", "queries", "test"}),
    FileRole.NEIGHBORS: frozenset(
        {"groundtruth", "gt", "neighbors", "neighbours", "truth", "qrels", "distances"}
    ),
    FileRole.SPLIT: frozenset({"validation", "valid", "val", "dev"}),
}
#: Endings of files that are on their way, or were put aside.
_ASIDE = (".tmp", ".part", ".partial", ".crc", ".bak", ".swp", "~")
_APPLE = "__MACOSX"
#: Folders of tables whose files are not all of their rows, by what lies in them.
_TABLES = {
    "_delta_log": "a Delta table, whose log says which of its files hold its rows",
    ".hoodie": "a Hudi table, whose timeline says which of its files hold its rows",
    "metadata/*.metadata.json": "an Iceberg table, whose metadata says which files hold its rows",
}


def files_of(folder: Path) -> list[Path]:
    """All files below a folder that can be data, in natural order: `2.parquet` before `10.parquet`.

    Raises:
        UserError: it is a table whose rows cannot be determined from the files alone.
    """
    for pattern, what in _TABLES.items():
        if any(folder.glob(pattern)):
            raise UserError(
                f"it is {what}",
                where=str(folder),
                remedy="write its rows as Parquet into another folder, with the library it is of",
            )
    return sorted(_visible(folder), key=lambda file: natural(str(file.relative_to(folder))))


def _visible(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        parts = file.relative_to(folder).parts
        hidden = any(part.startswith((".", "_")) or part == _APPLE for part in parts)
        if not hidden and not file.name.endswith(_ASIDE) and file.is_file():
            yield file


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that orders names by the numbers in them."""
    parts = re.split(r"(\d+)", name)
    return [(int(one) if one.isdigit() else -1, one) for one in parts]


def role_of(parts: Sequence[str]) -> FileRole:
    """The role of a file, from the words in its name and in the folders that it lies in."""
    words = {word for part in parts for word in re.findall(r"[a-z]+", part.lower())}
    return next((role for role, known in _WORDS.items() if words & known), FileRole.ROWS)


def whole_sets(files: Sequence[Path]) -> Sequence[Path]:
    """Places of complete sets of shards, by their names (`00001-of-00004`), if there are several
    sets and so several datasets: their folders, or the first file of each set if they share one.
    Empty if there is one set, or none."""
    shards: dict[tuple[Path, str, int], list[Path]] = {}
    for file in files:
        if found := re.fullmatch(r"(.*?)\d+-of-0*(\d+).*", file.name):
            shards.setdefault((file.parent, found[1], int(found[2])), []).append(file)
    whole = [some[0] for (_, _, wanted), some in shards.items() if len(some) == wanted]
    folders = list(dict.fromkeys(file.parent for file in whole))
    return () if len(whole) < 2 else folders if len(folders) == len(whole) else whole
