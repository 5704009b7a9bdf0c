"""`vectrial data pictures`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from vectrial.cli import options
from vectrial.cli.dataset_view import print_dataset
from vectrial.cli.output import Format, progress_bars
from vectrial.datasets import library
from vectrial.datasets.ingest import checksum, name_of
from vectrial.model.dataset import Provenance
from vectrial.model.errors import UserError
from vectrial.model.metric import Metric
from vectrial_datasets.sources import inspection


def pictures(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Holds {inspection.LAYOUT}.")],
    name: options.NameOption = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Good pictures of each class that become normal queries, on which thresholds are"
            " chosen; at most a third of them.",
        ),
    ] = 40,
    licence: options.LicenceOption = options.LICENCE,
    force: options.ReplaceOption = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Import labelled pictures as a dataset for the anomaly experiment.

    \b
    vectrial data pictures mvtec_anomaly_detection --name mvtec-ad --licence CC-BY-NC-SA-4.0

    Normal pictures are stored with their class; other normal ones and defective ones are queries.
    Features are those of EfficientNet-Lite0 (1280-d), about 20 ms per picture, and are cached.
    Duplicate pictures are used once. `vectrial reproduce milvus-weaviate` uses a dataset named
    mvtec-ad if there is one.
    """
    if not folder.is_dir():
        raise UserError("there is no such folder", where=str(folder))
    name = name or name_of(folder)
    if library.path(name).exists() and not force:
        raise UserError(
            f"a dataset named '{name}' exists already", remedy="--name another, or --force"
        )
    with progress_bars() as progress:
        made = inspection.folder_material(folder, hold_out, progress)
        dataset = library.save(
            name,
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
    print_dataset(dataset, form)
