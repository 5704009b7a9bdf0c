"""Options and arguments of commands, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vectrial.cli.output import Format

#: Default folder of runs; the same as `run.prepare.RUNS`, whose import takes a second.
RUNS = Path("runs")
LATEST = RUNS / "latest"
LICENCE = "not stated"

# -- arguments ---------------------------------------------------------------------------------

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="Name of a store; see `vectrial stores`.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder or bundle.")]

# -- what is measured --------------------------------------------------------------------------

StoresOption = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="STORE", help="Use only this store (repeatable)."),
]
DatasetOption = Annotated[
    str, typer.Option(metavar="NAME", help="Dataset; see `vectrial data list`.")
]
RowsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Use only the first N rows.", show_default="all"),
]
IndexOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Kind of index.",
        show_default="the store's first that trades recall for speed",
    ),
]
LaneOption = Annotated[
    str | None,
    typer.Option(
        metavar="LANE",
        help="Lane: native, sdk or embedded.",
        show_default="the store's first",
    ),
]
KOption = Annotated[
    int, typer.Option("--k", "-k", min=1, metavar="K", help="Neighbours per query.")
]
RecallOption = Annotated[
    float, typer.Option(min=0, max=1, metavar="SHARE", help="Minimum mean recall, 0 to 1.")
]
P99Option = Annotated[
    str, typer.Option("--p99", metavar="TIME", help="Limit on p99 latency, with its unit.")
]
BuildParametersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param", metavar="NAME=VALUE", help="Set a build parameter, e.g. m=16 (repeatable)."
    ),
]
SearchParametersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="NAME=VALUE",
        help="Fix a search parameter, e.g. ef_search=64 (repeatable).",
    ),
]
_REPEATS = "Number of independent repeats; each reloads the data."
RepeatsOption = Annotated[int, typer.Option(min=1, max=1000, metavar="N", help=_REPEATS)]
SuiteRepeatsOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help=_REPEATS, show_default="the suite's")
]
MinutesOption = Annotated[
    float,
    typer.Option(min=0.05, max=600, metavar="MINUTES", help="Time budget of the whole command."),
]
ClientsOption = Annotated[
    int, typer.Option(min=1, max=1024, metavar="N", help="Clients that search at once.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and a time estimate; measure nothing.")
]
SecondsOption = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="Duration of each measured step.")
]

# -- where it runs, and where results go -------------------------------------------------------

OutOption = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for new run folders.")]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Complete this run: keep finished trials, retry failed ones."
    ),
]
OnOption = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Where the work is done: here, on the machines of the Ray cluster of this machine"
        " (ray), or of another (ray://HOST:PORT). See docs/scale.md.",
    ),
]
ExposedOption = Annotated[
    bool,
    typer.Option(
        "--allow-exposed",
        help="Start servers even if other machines on the network can reach them.",
    ),
]
SealOption = Annotated[
    str | None,
    typer.Option("--seal", metavar="HEX", help="Refuse the bundle unless it has this seal."),
]

# -- datasets ----------------------------------------------------------------------------------

VectorsOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column, key or array of the vectors, if there are several."),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Name of the dataset in suites.", show_default="from the file name"
    ),
]
LicenceOption = Annotated[
    str,
    typer.Option(metavar="TEXT", help="Licence, recorded in the dataset and in every run."),
]
ReplaceOption = Annotated[
    bool, typer.Option("--force", "--yes", "-y", help="Replace a dataset of that name.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

# -- output ------------------------------------------------------------------------------------

FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="Output format; jsonl is one object per line.")
]
