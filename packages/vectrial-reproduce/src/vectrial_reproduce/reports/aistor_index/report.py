"""AIStor, Milvus and cuVS: building an index through object storage."""

from __future__ import annotations

from dataclasses import replace

from vectrial_reproduce.reports.model import (
    Absence,
    Arm,
    Ask,
    Claim,
    ClaimSide,
    Measure,
    Note,
    NotYet,
    Part,
    Reproduction,
)

#: Of the report's 884 segments; as many as a machine of ours builds in its time.
_SEGMENTS, _SEGMENT_ROWS = 8, 120_000
_SYSTEM = "AIStor+Milvus+cuVS"
_SOURCES = ("fashion-images-2048", "clustered-2048-{rows}-cosine")
_CPU, _GPU = {"device": "cpu"}, {"device": "gpu"}
_HNSW = {"m": 16, "ef_construction": 64}
_LOOPBACK = {"objects": "minio", "transport": "loopback"}
_ASK = Ask(
    "index_pipeline",
    {
        "objects": ["folder", "minio"],
        "link_mbit": 1000,
        "search": {"ef_search": [32, 128], "itopk_size": [64, 256]},
    },
    sizes={"segment_rows": (_SEGMENT_ROWS,)},
)
_UNLIKE = (
    "theirs is of 106 million rows, an index that is not named, and a machine with many more"
    " processors"
)
_AS_OURS = "as ours: it is not described well enough to be repeated"

_MILVUS = Part(
    name="milvus",
    title="Segments imported by a Milvus cluster over its MinIO",
    dataset="miracl-2048",
    sources=_SOURCES,
    rows=_SEGMENTS * _SEGMENT_ROWS,
    queries=1_000,
    k=10,
    arms=(
        Arm(
            _SYSTEM,
            "milvus",
            "hnsw",
            _HNSW,
            "a cluster of one machine, its index an HNSW: theirs is not named. MinIO is its"
            " open-source server",
            here="Milvus and MinIO",
            nodes=2,
            given=_CPU,
        ),
    ),
    asks=(_ASK,),
    measures=(
        Measure(
            ("index_pipeline", "index_time"),
            "index_pipeline",
            "index",
            "pipeline_wall_s",
            given=_CPU,
            unlike=_UNLIKE,
            note="by the clock, from the request to the last index: what its index nodes"
            " add up over workers is not known",
        ),
    ),
    metadata=False,
)

REPORT = Reproduction(
    name="aistor-index",
    title="Benchmarking Vector Index Creation with MinIO AIStor, Milvus, and NVIDIA cuVS",
    document="MinIO's blog; its tables are images and are not repeated here",
    machine="8 storage nodes (EPYC 9754, 24 NVMe each), one server with 8 Hopper GPUs, 400 GbE",
    scale=10_000 / _SEGMENT_ROWS,
    parts=(
        _MILVUS,
        replace(
            _MILVUS,
            name="pipeline",
            title="Segments through MinIO, an index of each",
            arms=(
                Arm(
                    _SYSTEM,
                    "cuvs",
                    "cagra",
                    note="the index is cuVS' CAGRA: theirs is not named. MinIO is its open-source"
                    " server, alone on loopback",
                    here="MinIO and cuVS",
                    given=_GPU,
                ),
                Arm(
                    _SYSTEM,
                    "faiss",
                    "hnsw",
                    _HNSW,
                    "the index is FAISS' HNSW: theirs is not named. MinIO is its open-source"
                    " server, alone on loopback",
                    here="MinIO and FAISS",
                ),
            ),
            measures=(
                *(
                    Measure(
                        ("index_pipeline", "index_time"),
                        "index_pipeline",
                        "index",
                        "index_sum_s",
                        given=device,
                        where=_LOOPBACK,
                        unlike=_UNLIKE,
                        note="builds and write-backs added up over workers, as theirs",
                    )
                    for device in (_CPU, _GPU)
                ),
                Measure(
                    ("index_pipeline", "speed_up"),
                    "index_pipeline",
                    "index",
                    "index_speedup_limit",
                    where=_LOOPBACK,
                    unlike="it is a limit, not a speed-up",
                    note="PUT, GET and index over PUT and GET, each added up over workers: what an"
                    " index that takes no time would bring",
                ),
            ),
        ),
    ),
    claims=(
        Claim(
            "GPUs build the indexes in four minutes instead of two hours",
            "index_time",
            ClaimSide("index_pipeline", _CPU),
            ClaimSide("index_pipeline", _GPU),
            least=27.0,
            absent=(
                Absence.NOT_YET,
                "It takes an NVIDIA GPU: the machine of this reproduction has none.",
            ),
            note="neither side's kind of index nor its recall is stated; where there is a GPU,"
            " cuVS' CAGRA is measured",
        ),
        Claim(
            "With GPUs and RDMA the pipeline is 12 times as fast",
            absent=(
                Absence.NEVER,
                "It takes GPUs and network cards with RDMA. That an index which took no time would"
                " bring at most ×8.2 (10,000 rows a segment, results/aistor-index) or ×12 (120,000,"
                " results/index-pipeline-large) says nothing of it: PUT and GET get faster, too.",
            ),
            note="over what, is not said. Two hours over four minutes is 30 for the index alone; 12"
            " for the whole is then CPU and TCP against GPU and RDMA, with about eight minutes of"
            " PUT and GET over TCP",
        ),
        *(
            Claim(text, absent=(Absence.NEVER, "It takes a network card with RDMA and a GPU."))
            for text in (
                "RDMA takes 18.6 % less time than TCP, with GPUs",
                "RDMA improves every phase",
            )
        ),
        Claim(
            "GPUs do nothing for segmentation and ingestion",
            absent=(
                Absence.NOT_YET,
                "Each phase is timed (index_pipeline); the committed runs have no GPU.",
            ),
        ),
        Claim(
            "The larger the data, the more the balance of the phases matters",
            absent=(
                Absence.NOT_YET,
                "No committed result has the same pipeline with several numbers of segments.",
            ),
        ),
    ),
    not_yet={
        "index_pipeline.rdma_improvement": NotYet(
            "it takes a network card with RDMA and a GPU, of which this project has measured none"
        ),
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
