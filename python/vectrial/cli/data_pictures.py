"""`vectrial data pictures`: a dataset of labelled pictures, as MVTec AD."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from vectrial.cli.bars import bars
from vectrial.cli.dataset_view import as_json, as_table
from vectrial.cli.form import Form, FormOption, on_stdout
from vectrial.datasets import library
from vectrial.datasets.ingest import checksum, name_of
from vectrial.datasets.sources import picture_folder
from vectrial.model.dataset import Provenance
from vectrial.model.errors import UserError
from vectrial.model.metric import Metric


def pictures(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help=f"Holds {picture_folder.LAYOUT}.")
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the dataset in suites. Default: from the folder name."),
    ] = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Good pictures of each class to learn from that become normal queries, on which"
            " thresholds are chosen; at most a third of them.",
        ),
    ] = 40,
    licence: Annotated[
        str, typer.Option(help="Licence, recorded in the dataset and in every run.")
    ] = ("not stated"),
    force: Annotated[
        bool, typer.Option("--force", "--yes", "-y", help="Replace a dataset of that name.")
    ] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Import labelled pictures as a dataset for the anomaly experiment.

    Normal pictures are stored with their class; other normal ones and defective ones are queries.

    Features are those of EfficientNet-Lite0 (1280-d), about 20 ms per picture, and are cached.
    Duplicate pictures are used once. `vectrial reproduce milvus-weaviate` uses a dataset named
    mvtec-ad if there is one.

        vectrial data pictures mvtec_anomaly_detection --name mvtec-ad --licence CC-BY-NC-SA-4.0
    """
    if not folder.is_dir():
        raise UserError("there is no such folder", where=str(folder))
    called = name or name_of(folder)
    if library.path(called).exists() and not force:
        raise UserError(
            f"a dataset named '{called}' exists already", remedy="--name another, or --force"
        )
    with bars() as progress:
        made = picture_folder.made(folder, hold_out, progress)
        dataset = library.save(
            called,
            metric=Metric.COSINE,
            vectors=np.asarray(made.vectors),
            queries=made.queries,
            provenance=Provenance(
                str(folder), licence, checksum(folder, progress), notes=made.notes
            ),
            metadata=made.metadata,
            filters=made.filters,
            query_metadata=made.query_metadata,
            replace_existing=force,
        )
    if form is Form.JSONL:
        print(as_json(dataset))
    else:
        on_stdout().print(as_table(dataset))
