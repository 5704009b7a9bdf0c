"""Categories of the files of Milvus standalone, as 2.3 lays them out on a local disk.

Segments are `<kind>/<collection>/<partition>/<segment>/<field>/…`, indexes
`index_files/<build>/<version>/<partition>/<segment>/<part>`, for vectors and for columns; the parts
of the latter have these names. The message queue is two RocksDBs, the catalogue an etcd.
"""

from __future__ import annotations

from types import MappingProxyType

from vectrial.model.file_categories import FileKind, FileKinds

FILES: FileKinds = MappingProxyType(
    {
        "*/insert_log/*": FileKind.ROWS,
        "*/delta_log/*": FileKind.ROWS,  # the rows that are deleted
        "*/stats_log/*": FileKind.METADATA_INDEX,  # the ids that a segment may hold
        "*/index_files/*/marisa_trie_*": FileKind.METADATA_INDEX,
        "*/index_files/*/index_data*": FileKind.METADATA_INDEX,
        "*/index_files/*/index_length": FileKind.METADATA_INDEX,
        "*/index_files/*": FileKind.INDEX,
        # Its name in the wheel and in the image.
        "/rocksmq*": FileKind.LOG,
        "/rdb_data*": FileKind.LOG,
        "/etcd/*": FileKind.CATALOG,
        "/config/*": FileKind.CATALOG,
    }
)
