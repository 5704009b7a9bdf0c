"""The published reports, measured again: `vectrial reproduce NAME`."""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.reports.aistor_index import report as aistor_index
from vectrial.reports.docarray_1m import report as docarray_1m
from vectrial.reports.docarray_sift1m import report as docarray_sift1m
from vectrial.reports.longbow import report as longbow
from vectrial.reports.milvus_weaviate import report as milvus_weaviate
from vectrial.reports.model import Reproduction

#: Every report by its name.
REPRODUCTIONS: Mapping[str, Reproduction] = {
    module.REPORT.name: module.REPORT
    for module in (milvus_weaviate, docarray_1m, docarray_sift1m, longbow, aistor_index)
}
