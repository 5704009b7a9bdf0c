"""After waiting, searches are answered by the graph: fewer candidates find fewer neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from ef_recall import check_ef_search


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "build"),
    [
        # Below the default of 10,000 KB Qdrant scans exactly, whatever the graph.
        ("qdrant-edge", {"full_scan_threshold_kb": 10, "m": 8, "ef_construction": 32}),
        ("chroma", {"m": 8, "ef_construction": 32}),
        ("duckdb", {"m": 8, "ef_construction": 32}),
        ("milvus-lite", {"m": 8, "ef_construction": 32}),
        ("lancedb", {"m": 8, "ef_construction": 32}),
        pytest.param("milvus", {"m": 8, "ef_construction": 32}, marks=pytest.mark.server("milvus")),
        pytest.param(
            "weaviate", {"m": 8, "ef_construction": 32}, marks=pytest.mark.server("weaviate")
        ),
        pytest.param(
            "pgvector", {"m": 8, "ef_construction": 32}, marks=pytest.mark.server("pgvector")
        ),
        pytest.param(
            "qdrant",
            {"full_scan_threshold_kb": 10, "m": 8, "ef_construction": 32, "segments": 1},
            marks=pytest.mark.server("qdrant"),
        ),
    ],
)
def test_ef_search_decides_recall(name: str, build: dict[str, int], tmp_path: Path) -> None:
    check_ef_search(name, build, tmp_path)
