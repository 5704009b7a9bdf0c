"""The commands of `vectrial`, in the order of its help."""

from __future__ import annotations

from typing import Any, ClassVar

from vectrial.cli.lazy import LazyGroup, Target

_DATA_HELP = (
    "Datasets: what is there, fetch one, import your own, look into it."
    "\n\nCommands end with 0; with 1 where a question was answered with no; with 2 and one line"
    " where a file, a dataset or an option cannot be used."
)


class DataCommands(LazyGroup):
    """The commands of `vectrial data`."""

    targets: ClassVar = {
        "import": Target(
            "data:import_", "Make a dataset of your own vectors, to be used in suites by name."
        ),
        "inspect": Target(
            "data:inspect", "Look into a dataset, or into a file without importing it."
        ),
        "truth": Target(
            "data:truth", "The exact nearest neighbours of a dataset's queries; cached."
        ),
        "list": Target(
            "data_fetch:list_datasets",
            "What there is: the catalogue, and the datasets that are here already.",
        ),
        "fetch": Target(
            "data_fetch:fetch",
            "Get datasets, so that suites find them by name; what is here already costs nothing.",
        ),
        "pictures": Target(
            "data_pictures:pictures",
            "Make a dataset of pictures for the anomaly experiment: good ones to learn from are"
            " stored with their class, other good ones and faulty ones are asked under it.",
        ),
        "remove": Target(
            "data_remove:remove",
            "Delete datasets from the library; runs that were measured on them stay.",
        ),
    }


class Commands(LazyGroup):
    """The commands of `vectrial`, and the group `data`."""

    targets: ClassVar = {
        "run": Target(
            "run:run",
            "Measure a SUITE: every store, every experiment, every repeat, into one run folder.",
        ),
        "capacity": Target(
            "capacity:capacity",
            "Find the greatest rate that STORE sustains with p99, recall and errors within limits.",
        ),
        "tune": Target(
            "tune:tune",
            "Find parameters of STORE that search fastest at a recall, within limits, on a"
            " dataset.",
        ),
        "report": Target(
            "report:report",
            "Write the report of a run: one HTML file that opens offline, tables, figures, data.",
        ),
        "compare": Target(
            "compare:compare", "Judge B against A: better, worse, tie, or not comparable and why."
        ),
        "serve": Target(
            "serve:serve",
            "Show a folder of RUNS as web pages: list, reports, trials, comparisons, a run under"
            " way.",
        ),
        "reproduce": Target(
            "reproduce:reproduce",
            "Measure a published REPORT again: its own tables, in its order, each cell with what"
            " was published, what was measured here and the ratio; or why there is nothing to"
            " show.",
        ),
        "bundle": Target(
            "bundle:bundle",
            "Seal a RUN into one file: suite, results, environment, logs, each with its checksum.",
        ),
        "experiments": Target(
            "experiments:experiments",
            "List the experiments a suite may name, with their parameters and defaults.",
        ),
        "stores": Target(
            "stores:stores",
            "What stores there are, what each can do, and whether it works on this machine.",
        ),
        "conformance": Target(
            "conformance:conformance",
            "Run the conformance suite on a STORE: search, filters, reads, writes and refusals, as"
            " far as the store declares them, against exact answers.",
        ),
        "up": Target(
            "up:up", "Start the server of a STORE, say how to connect, and run it until Ctrl-C."
        ),
        "down": Target(
            "up:down",
            "End the server of a STORE that `vectrial up` started, and wait until it has ended.",
        ),
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        data = DataCommands(
            name="data", help=_DATA_HELP, no_args_is_help=True, rich_markup_mode="rich"
        )
        self.add_command(data)
