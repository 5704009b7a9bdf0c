"""AIStor, Milvus and cuVS: building an index through object storage."""

from __future__ import annotations

from vectrial.reports.model import Arm, Ask, Measure, Note, NotYet, Part, Reproduction

#: Of the report's 884 segments; as many as a machine of ours builds in its time.
_SEGMENTS, _SEGMENT_ROWS = 8, 120_000
_AS_OURS = "as ours: it is not described well enough to be repeated"

REPORT = Reproduction(
    name="aistor-index",
    title="Benchmarking Vector Index Creation with MinIO AIStor, Milvus, and NVIDIA cuVS",
    document="MinIO's blog; its tables are images and are not repeated here",
    machine="8 storage nodes (EPYC 9754, 24 NVMe each), one server with 8 Hopper GPUs, 400 GbE",
    scale=10_000 / _SEGMENT_ROWS,
    parts=(
        Part(
            name="pipeline",
            title="Segments through MinIO, an index of each",
            dataset="miracl-2048",
            sources=("fashion-images-2048", "clustered-2048-{rows}-cosine"),
            rows=_SEGMENTS * _SEGMENT_ROWS,
            queries=1_000,
            k=10,
            arms=(
                Arm(
                    "AIStor+Milvus+cuVS",
                    "faiss",
                    "hnsw",
                    {"m": 16, "ef_construction": 64},
                    "the index is FAISS' HNSW: theirs is not named. MinIO is its open-source"
                    " server, alone on loopback",
                    here="MinIO and FAISS",
                ),
            ),
            asks=(
                Ask(
                    "index_pipeline",
                    {
                        "objects": ["folder", "minio"],
                        "link_mbit": 1000,
                        "search": {"ef_search": [32, 128]},
                    },
                    sizes={"segment_rows": (_SEGMENT_ROWS,)},
                ),
            ),
            measures=(
                Measure(
                    ("index_pipeline", "index_time"),
                    "index_pipeline",
                    "index",
                    "index_sum_s",
                    given={"device": "cpu"},
                    where={"objects": "minio", "transport": "loopback"},
                    unlike="theirs is of 106 million rows, an index that is not named, and a"
                    " machine with many more processors",
                    note="builds and write-backs added up over workers, as theirs",
                ),
            ),
            metadata=False,
        ),
    ),
    not_yet={
        "index_pipeline": NotYet(
            "it is of 106 million vectors, GPUs, or RDMA network cards, which are not here"
        )
    },
    notes=(
        Note(
            "what 12 times is",
            "over what, is not said. Two hours over four minutes is about 27 for the index alone,"
            " so that 12 can only be the whole way, CPU and TCP against GPU and RDMA",
            "each phase, and the whole by the clock",
            _AS_OURS,
        ),
        Note(
            "times",
            "sums over segments that were under way at once, not time by the clock; waiting for a"
            " segment to fill is left out",
            "both, side by side",
            _AS_OURS,
        ),
        Note(
            "the index",
            "neither its kind, nor its parameters, nor its recall are stated",
            "recall of all segments together, beside that of one index of all rows",
            _AS_OURS,
        ),
        Note(
            "the model",
            "the one it names gives 1024 dimensions, its vectors have 2048",
            "image vectors of 2048 dimensions, or generated ones where more rows are asked for",
            _AS_OURS,
        ),
    ),
)
