"""Categories of the files of Weaviate's server, as 1.35 lays them out.

A shard's folder has LSM buckets in `lsm`, a folder each, and the graph's log beside it. The log is
the graph's only file, and is read when the graph is opened. Writes to a bucket are in its
write-ahead log until its memory is written out as a segment.
"""

from __future__ import annotations

from types import MappingProxyType

from vectrial.model.file_categories import FileKind, FileKinds

FILES: FileKinds = MappingProxyType(
    {
        "*/lsm/*.wal": FileKind.LOG,
        "*/lsm/objects/*": FileKind.ROWS,
        # Files of indexes without a graph, and of compressed vectors.
        "*/lsm/vectors*": FileKind.VECTORS,
        "*/lsm/property_*": FileKind.METADATA_INDEX,
        "*/lsm/dimensions*": FileKind.CATALOG,
        "*/proplengths": FileKind.METADATA_INDEX,
        "*.hnsw.commitlog.d/*": FileKind.INDEX,
        "*.hnsw.snapshot.d/*": FileKind.INDEX,
        "*.queue.d/*": FileKind.LOG,
        "/raft/*": FileKind.CATALOG,
        "/*.db": FileKind.CATALOG,
        "*/indexcount": FileKind.CATALOG,
        "*/version": FileKind.CATALOG,
    }
)
