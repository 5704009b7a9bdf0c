"""Categories of a store's files, by their paths: bytes on disk by kind."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase


class FileKind(StrEnum):
    """Content of a file; each kind has a metric, `disk_<kind>_bytes`."""

    ROWS = "rows"  # rows, with their vectors where these are not kept apart
    VECTORS = "vectors"  # vectors apart from the rest of their rows, whole or quantized
    INDEX = "index"  # indexes of vectors
    METADATA_INDEX = "metadata_index"  # indexes of columns, words and ids
    LOG = "log"  # what is written before anything else is: write-ahead logs, message queues
    CATALOG = "catalog"  # what there is: collections, segments, settings
    MIXED = "mixed"  # several of these in one file: compound segments, snapshots
    OTHER = "other"  # what no pattern names

    @property
    def metric(self) -> str:
        """The name of the metric for the bytes of this kind."""
        return f"disk_{self.value}_bytes"


#: Patterns of paths, as of `fnmatch` (a `*` goes beyond `/`), and what lies there; the first that
#: fits decides. Of a folder the path ends in `/`, so that `*/wal/*` names it and all in it. Paths
#: begin with `/` at a folder of the data.
FileKinds = Mapping[str, FileKind]


def kind_of(path: str, kinds: FileKinds) -> FileKind:
    """Kind of the file at `path`; patterns have the syntax of `FileKinds`."""
    return next((kind for glob, kind in kinds.items() if fnmatchcase(path, glob)), FileKind.OTHER)
