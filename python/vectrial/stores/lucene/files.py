"""Categories of the files of a Lucene index, and of those beside it.

A small segment is one compound file (`.cfs`), in which nothing is told apart.
"""

from __future__ import annotations

from types import MappingProxyType

from vectrial.model.file_categories import FileKind, FileKinds

_EXTENSIONS = {
    # Files of vectors: whole, quantized, and their offsets.
    FileKind.VECTORS: ("vec", "vemf", "veq", "vemq", "veb", "vemb"),
    # Their graphs, as Lucene has them and as OpenSearch's own engines do.
    FileKind.INDEX: ("vex", "vem", "faiss", "hnsw"),
    # Stored fields, with the document as it came, and columns.
    FileKind.ROWS: ("fdt", "fdx", "fdm", "dvd", "dvm"),
    # Words and keywords with where they are, numbers, and norms.
    FileKind.METADATA_INDEX: (
        "tim", "tip", "tmd", "doc", "pos", "pay", "psm", "kdd", "kdi", "kdm", "nvd", "nvm", "bfm",
        "bfi",
    ),
    FileKind.MIXED: ("cfs", "cfe"),
    FileKind.CATALOG: ("si", "fnm", "liv"),
}  # fmt: skip
FILES: FileKinds = MappingProxyType(
    {
        "*/translog/*": FileKind.LOG,
        **{
            f"*/index/*.{extension}": kind
            for kind, extensions in _EXTENSIONS.items()
            for extension in extensions
        },
        "*/index/segments_*": FileKind.CATALOG,
        "*/_state/*": FileKind.CATALOG,
        "/config/*": FileKind.CATALOG,
    }
)
