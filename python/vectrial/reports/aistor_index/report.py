"""AIStor, Milvus and cuVS: building an index through object storage."""

from __future__ import annotations

from vectrial.reports.model import Note, NotYet, Reproduction

#: With --faithful as without it.
_NOT_YET = "nothing: this report is not measured here yet"

REPORT = Reproduction(
    name="aistor-index",
    title="Benchmarking Vector Index Creation with MinIO AIStor, Milvus, and NVIDIA cuVS",
    document="MinIO's blog; its tables are images and are not repeated here",
    machine="8 storage nodes (EPYC 9754, 24 NVMe each), one server with 8 Hopper GPUs, 400 GbE",
    scale=0.0001,
    parts=(),
    not_yet={
        "index_pipeline": NotYet(
            "segments through object storage, an index of each, written back", "index_pipeline"
        )
    },
    notes=(
        Note(
            "what 12 times is",
            "over what, is not said. Two hours over four minutes is about 27 for the index alone,"
            " so that 12 can only be the whole way, CPU and TCP against GPU and RDMA",
            "each phase and the whole by the clock",
            _NOT_YET,
        ),
        Note(
            "times",
            "sums over segments that were under way at once, not time by the clock; waiting for a"
            " segment to fill is left out",
            "both, side by side",
            _NOT_YET,
        ),
        Note(
            "the index",
            "neither its kind, nor its parameters, nor its recall are stated",
            "recall of the result, or the time says nothing",
            _NOT_YET,
        ),
        Note(
            "the model",
            "the one it names gives 1024 dimensions, its vectors have 2048",
            "",
            _NOT_YET,
        ),
    ),
)
