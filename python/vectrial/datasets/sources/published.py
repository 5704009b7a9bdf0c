"""The datasets of the field, by URL. Nothing here is tried until somebody asks for it.

Layouts: ann-benchmarks' HDF5 (https://github.com/erikbern/ann-benchmarks), qdrant's archives
(https://github.com/qdrant/vector-db-benchmark, datasets/datasets.json), VectorDBBench's Parquet
(https://github.com/zilliztech/VectorDBBench), and Parquet shards of the Hugging Face hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.readers import Block, ReaderOptions, VectorSource, open_source
from vectrial.datasets.sources.material import Material
from vectrial.model.errors import DataError
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress
from vectrial.util import paths
from vectrial.util.download import Policy, Remote, download

ANN_BENCHMARKS = "https://ann-benchmarks.com"
QDRANT = "https://storage.googleapis.com/ann-filtered-benchmark/datasets"
VECTORDBBENCH = "https://assets.zilliz.com/benchmark"
HUGGING_FACE = "https://huggingface.co/api/datasets"


@dataclass(frozen=True)
class Published:
    """Files that together are one dataset in a layout that the readers know.

    files: name in the folder → what to fetch under it.
    queries: the file that holds the queries, if the layout has no place for them.
    conditions: whether the filters that come with the queries are wanted.
    """

    files: tuple[tuple[str, Remote], ...]
    queries: str | None = None
    conditions: bool = True


def hdf5(name: str, root: str = ANN_BENCHMARKS) -> Published:
    """A file from ann-benchmarks."""
    return Published(((f"{name}.hdf5", Remote(f"{root}/{name}.hdf5")),))


def qdrant(archive: str, root: str = QDRANT, *, conditions: bool = True) -> Published:
    """An archive from qdrant."""
    return Published(((archive, Remote(f"{root}/{archive}")),), conditions=conditions)


def vectordbbench(name: str, train_files: int, root: str = VECTORDBBENCH) -> Published:
    """A folder from VectorDBBench: train, test and scalar labels; the truth is computed here."""
    train = ["train.parquet"]
    if train_files > 1:
        train = [f"train-{part:02d}-of-{train_files:02d}.parquet" for part in range(train_files)]
    names = (*train, "test.parquet", "scalar_labels.parquet")
    return Published(tuple((file, Remote(f"{root}/{name}/{file}")) for file in names))


def miracl(language: str, shards: int, root: str = HUGGING_FACE) -> Published:
    """The first shards of a MIRACL corpus as Cohere embedded it, with the questions of `dev`."""
    corpus = f"{root}/Cohere/miracl-{language}-corpus-22-12/parquet/default/train"
    questions = f"{root}/Cohere/miracl-{language}-queries-22-12/parquet/default/dev/0.parquet"
    files = [(f"corpus/{n:04d}.parquet", Remote(f"{corpus}/{n}.parquet")) for n in range(shards)]
    return Published((*files, ("queries.parquet", Remote(questions))), queries="queries.parquet")


def material(
    name: str,
    published: Published,
    metric: Metric,
    rows: int | None,
    progress: Progress,
    policy: Policy | None = None,
) -> tuple[Material, tuple[str, ...]]:
    """Fetch and open a published dataset; also returns the checksums of the files, as text.

    Raises:
        SourceUnavailable: a file cannot be had.
        DataError: a file is not what it should be, or the metric differs from the promised one.
    """
    folder = paths.downloads_dir() / "published" / name
    sums, notes = [], []
    for file, remote in published.files:
        fetched = download(remote, folder / file, progress, policy)
        sums.append(f"{file} sha256:{fetched.sha256}")
        notes += [fetched.note] if fetched.note else []
    options = ReaderOptions(rows=rows, conditions=published.conditions)
    source = open_source(_to_open(folder, published), options)
    if source.metric not in (None, metric):
        source.close()
        raise DataError(f"its metric is {source.metric}, not {metric}", where=name)
    queries = source.queries
    if published.queries is not None:
        queries = _queries(folder / published.queries)
    if queries is None:
        source.close()
        raise DataError("it brings no queries", where=name)
    blocks = _blocks(source, metric, progress)
    made = Material(blocks, queries, filters=source.filters, notes=(*source.notes, *notes))
    return made, tuple(sums)


def _to_open(folder: Path, published: Published) -> Path:
    if len(published.files) == 1:
        return folder / published.files[0][0]
    return folder / "corpus" if published.queries else folder


def _queries(path: Path) -> NDArray[Any]:
    with open_source(path, ReaderOptions(keep=())) as source:
        return np.concatenate([block.vectors for block in source.blocks()])


def _blocks(source: VectorSource, metric: Metric, progress: Progress) -> Iterator[Block]:
    with source:
        done = 0
        for block in source.blocks(metric=metric):
            progress(done, source.rows, "converting rows")
            yield block
            done += len(block.vectors)
        progress(done, source.rows, "converting rows")
