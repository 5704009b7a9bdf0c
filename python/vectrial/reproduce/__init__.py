"""The published reports, measured again: `vectrial reproduce NAME`."""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.reproduce import (
    aistor_index,
    docarray_1m,
    docarray_sift1m,
    longbow,
    milvus_weaviate,
)
from vectrial.reproduce.model import Reproduction

#: Every report by its name.
REPRODUCTIONS: Mapping[str, Reproduction] = {
    module.REPORT.name: module.REPORT
    for module in (milvus_weaviate, docarray_1m, docarray_sift1m, longbow, aistor_index)
}
