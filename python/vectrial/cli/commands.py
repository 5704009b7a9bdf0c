"""The commands of `vectrial`, in the order of its help."""

from __future__ import annotations

from typing import Any, ClassVar

from vectrial.cli.lazy import LazyGroup, Target

_DATA_HELP = (
    "List, fetch, import and inspect datasets."
    "\n\nExit codes: 0 success, 1 cancelled at a prompt, 2 invalid input."
)


class DataCommands(LazyGroup):
    """The commands of `vectrial data`."""

    targets: ClassVar = {
        "import": Target(
            "data:import_", "Import your own vectors as a dataset that suites can name."
        ),
        "inspect": Target(
            "data:inspect", "Show the facts of a dataset, or of a file without importing it."
        ),
        "truth": Target(
            "data:truth", "Print the exact nearest neighbours of a dataset's queries; cached."
        ),
        "list": Target(
            "data_catalog:list_datasets", "List the catalogue and the datasets in the library."
        ),
        "fetch": Target(
            "data_catalog:fetch",
            "Fetch datasets into the library. Datasets that are there already are skipped.",
        ),
        "pictures": Target(
            "data:pictures",
            "Import labelled pictures as a dataset for the anomaly experiment.",
        ),
        "remove": Target(
            "data_catalog:remove", "Delete datasets from the library. Runs that used them stay."
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
            "Find the highest QPS that STORE sustains with p99, recall and errors within limits.",
        ),
        "tune": Target(
            "tune:tune",
            "Find the fastest index and search parameters of STORE at a recall, within limits.",
        ),
        "report": Target(
            "report:report",
            "Write the report of a run: one offline HTML file, Markdown, CSV and figures.",
        ),
        "compare": Target(
            "compare:compare",
            "Compare B against A: better, worse, tie, or not comparable with the reason.",
        ),
        "serve": Target(
            "serve:serve",
            "Serve a folder of RUNS as web pages: reports, trials, comparisons, running runs.",
        ),
        "reproduce": Target(
            "reproduce:reproduce", "Measure a published REPORT again, in its own tables."
        ),
        "bundle": Target(
            "bundle:bundle",
            "Seal a RUN into one file: suite, results, environment and logs, with checksums.",
        ),
        "experiments": Target(
            "experiments:experiments", "List the experiments with their parameters and defaults."
        ),
        "stores": Target(
            "stores:stores",
            "List the stores, their capabilities, and whether each works on this machine.",
        ),
        "conformance": Target(
            "conformance:conformance",
            "Run the conformance suite on a STORE: search, filters, reads, writes and refusals, as"
            " far as the store declares them, against exact answers.",
        ),
        "up": Target(
            "up:up", "Start the server of a STORE, print how to connect, and run it until Ctrl-C."
        ),
        "down": Target(
            "up:down",
            "Stop the server of a STORE that `vectrial up` started, and wait until it has ended.",
        ),
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        data = DataCommands(
            name="data", help=_DATA_HELP, no_args_is_help=True, rich_markup_mode="rich"
        )
        self.add_command(data)
