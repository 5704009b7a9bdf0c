"""What the pipeline refuses, and the texts that it embeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import dataset, index_of, target
from numpy.typing import NDArray

from vectrial.datasets.sources import minilm
from vectrial.model.errors import Unsupported, UserError
from vectrial.stores.hnswlib import HnswlibStore
from vectrial_reproduce.experiments.index_pipeline.embedding import text_embedder
from vectrial_reproduce.experiments.index_pipeline.experiment import IndexPipeline

TEXTS = ["one", "zwölf", None]


def test_texts_are_embedded_of_a_column_of_texts() -> None:
    with pytest.raises(Unsupported, match="no column of texts 'gloss'"):
        IndexPipeline(embed="gloss").points(target(HnswlibStore, index_of(HnswlibStore, "hnsw")))


def test_a_segment_may_have_any_number_of_rows() -> None:
    points = IndexPipeline(segment_rows=120_000).points(  # type: ignore[arg-type]
        target(HnswlibStore, index_of(HnswlibStore, "hnsw"))
    )
    assert {point["segment_rows"] for point in points} == {120_000}
    with pytest.raises(ValueError, match="segment_rows"):
        IndexPipeline(segment_rows=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("off", [0.0, 1e-4, 0.1])
def test_vectors_are_those_of_the_texts(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = dataset(len(TEXTS))
    rows = replace(rows, metadata=pa.table({"gloss": TEXTS}))
    asked = list[str]()

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        asked.extend(texts)
        return rows.vectors[1:] + np.float32(off)

    monkeypatch.setattr(minilm, "encoder", lambda _: encode)
    embed = text_embedder(rows, "gloss", lambda *_: None)
    if off == 0.1:
        with pytest.raises(UserError, match="are not MiniLM's of its column 'gloss'"):
            embed(1, 3)
    else:
        assert embed(1, 3) == len("zwölf".encode())
    assert asked == ["zwölf", ""]
