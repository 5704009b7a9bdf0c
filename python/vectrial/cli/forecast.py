"""`vectrial forecast`: what more rows would take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vectrial.cli import options, values
from vectrial.cli.output import print_json, stdout_console
from vectrial.cli.price_sheet import read_prices
from vectrial.model.errors import UserError
from vectrial.model.placement import size_bytes
from vectrial.suite.model import Prices

if TYPE_CHECKING:
    from vectrial.analysis.deployment import Demand, NodeSize, Sizing
    from vectrial.analysis.growth_curves import Curve, GrowthBuild
    from vectrial.analysis.growths import Outlook
    from vectrial.analysis.run_data import RunData
    from vectrial.document.blocks import Section, Table

_ROWS = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)([kMG]?)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
#: More rows are nobody's, and logarithms of forecasts have an end.
_MOST_ROWS = 1e15
#: Factor beyond the largest measured size from which a forecast is a guess.
_FAR = 100


class ForecastFormat(StrEnum):
    """Output of a forecast."""

    TABLE = "table"
    JSONL = "jsonl"
    MARKDOWN = "md"


def forecast(
    run: options.RunArgument = options.LATEST,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N",
            help="Number of rows, such as 1e9 or 10M (repeatable).",
            show_default="ten times the largest size of the run",
        ),
    ] = None,
    qps: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="QPS", help="Target QPS; also shows how many nodes it takes."
        ),
    ] = None,
    p99: Annotated[
        str, typer.Option("--p99", metavar="TIME", help="With --qps: limit on p99 latency.")
    ] = "20ms",
    recall: options.RecallOption = 0.95,
    node_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With --qps: memory of a node for the store, such as 64GiB.",
            show_default="that of the measured machine",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --qps: a TOML file with the keys of a suite's [prices].",
            show_default="the [prices] of the run's suite",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare forecasts of the largest measured size, from the smaller ones, with its"
            " measurement.",
        ),
    ] = False,
    store: options.StoresOption = None,
    form: Annotated[
        ForecastFormat,
        typer.Option("--format", "-f", help="Output format; jsonl is one object per line."),
    ] = ForecastFormat.TABLE,
) -> None:
    """Forecast load time, memory, disk, latency and QPS at more rows than a run measured.

    \b
    vectrial run growth                                    measure six sizes (75 minutes)
    vectrial forecast --check                              does it predict the largest?
    vectrial forecast --rows 10M --rows 1e9
    vectrial forecast --rows 1e9 --qps 5000 --p99 20ms --node-memory 256GiB --prices prices.toml

    RUN needs at least four sizes of one dataset: several [[datasets]] of one name with different
    rows. Measures nothing. Every forecast has an 80 % interval, which widens with the distance
    from what was measured. docs/forecast.md describes the method.

    Exit codes: 0 success, 2 invalid input.
    """
    # Imported here: the readers of results take a while.
    from vectrial.analysis.growth_curves import curves
    from vectrial.analysis.run_data import load

    asked = [_rows(text) for text in rows or ()]
    limit_us = values.milliseconds(p99, "--p99") * 1e3
    memory = None if node_memory is None else _size(node_memory)
    loaded = load(run)
    found = _select_stores(curves(loaded, recall), store or (), loaded)
    smallest, largest = _measured_sizes(found, run)
    at = asked or [largest * 10.0]
    if not check and min(at) < smallest:
        raise UserError(
            f"{min(at):,.0f} rows are fewer than the {smallest:,} of the smallest size that the run"
            " measured",
            where="--rows",
            remedy="measure fewer rows as well",
        )
    from vectrial.analysis.deployment import Demand

    demands = [] if qps is None else [Demand(number, qps, limit_us) for number in at]
    sheet = None if qps is None else _prices(prices, loaded)
    result = _Result(loaded, found, recall, at, demands, memory, sheet, check)
    if form is ForecastFormat.JSONL:
        print_json(result.objects())
    else:
        result.show(form, largest)


class _Result:
    """Requested results, to be shown in either format."""

    def __init__(
        self,
        run: RunData,
        found: Sequence[Curve],
        recall: float,
        rows: Sequence[float],
        demands: Sequence[Demand],
        memory_bytes: int | None,
        prices: Prices | None,
        check: bool,
    ) -> None:
        self._run, self._found, self._recall, self._rows = run, found, recall, rows
        self._demands, self._memory_bytes, self._prices = demands, memory_bytes, prices
        self._check = check

    def show(self, form: ForecastFormat, largest: int) -> None:
        """Print tables."""
        from vectrial.document.blocks import Report
        from vectrial.document.render import markdown, terminal
        from vectrial.report.sections.warnings import warnings as warnings_of

        far = [f"{rows:,.0f}" for rows in self._rows if rows > _FAR * largest]
        warnings = (
            f"The run's largest size has {largest:,} rows. A forecast of {', '.join(far)} is more"
            f" than {_FAR} times beyond it: take it for an order of magnitude.",
        )
        report = Report(
            title=f"Forecast from {self._run.run['run_id']}",
            warnings=(*(warnings if far else ()), *warnings_of(self._run)),
            sections=tuple(self._sections()),
            labels=self._run.labels,
            stores=self._run.stores,
        )
        if form is ForecastFormat.MARKDOWN:
            print(markdown.render(report), end="")
        else:
            stdout_console().print(terminal.render(report))

    def objects(self) -> Iterator[dict[str, Any]]:
        """One object for each warning of the run, each forecast and each sizing."""
        from vectrial.analysis.growths import outlooks
        from vectrial.report.sections.warnings import warnings

        yield from ({"kind": "warning", "text": text} for text in warnings(self._run))
        if self._check:
            yield from (self._outlook(outlook) for outlook in self._holdout())
            return
        for rows in self._rows:
            yield from (self._outlook(outlook) for outlook in outlooks(self._found, rows))
        for demand in self._demands:
            for sizing in self._sizings(demand):
                yield self._sizing(sizing, demand)

    def _sections(self) -> Iterator[Section]:
        from vectrial.document.blocks import Section
        from vectrial.report.sections import growth
        from vectrial.report.sections.growth import sizing

        datasets = dict.fromkeys(curve.build.dataset for curve in self._found)
        tables: list[Table] = []
        for dataset in datasets:
            own = [curve for curve in self._found if curve.build.dataset == dataset]
            if self._check:
                held = [o for o in self._holdout() if o.curve.build.dataset == dataset]
                tables += growth.check_tables(self._run, held, self._recall)
            else:
                for rows in self._rows:
                    tables += growth.forecast_tables(self._run, own, rows, self._recall)
        yield Section(
            "growth", "How it grows", growth.forecast_introduction(self._recall), tuple(tables)
        )
        if not self._check:
            for demand in self._demands:
                yield sizing(self._run, self._sizings(demand), demand, self._prices)

    def _holdout(self) -> list[Outlook]:
        from vectrial.analysis.growths import holdout_checks

        held = []
        for dataset in dict.fromkeys(curve.build.dataset for curve in self._found):
            own = [curve for curve in self._found if curve.build.dataset == dataset]
            held += holdout_checks(own, max(curve.sizes[-1] for curve in own))
        if not held:
            raise UserError(
                "--check needs five sizes: four to fit, and the largest to compare with",
                where=str(self._run.folder),
            )
        return held

    def _sizings(self, demand: Demand) -> list[Sizing]:
        from vectrial.analysis.deployment import sizings

        return sizings(self._found, demand, self._node, self._prices)

    def _node(self, build: GrowthBuild) -> NodeSize | None:
        from vectrial.analysis import resources
        from vectrial.analysis.deployment import NodeSize

        processors = resources.processors(self._run, build.series)
        memory = self._memory_bytes or resources.memory_bytes(self._run)
        return None if processors is None or memory is None else NodeSize(processors, memory)

    def _outlook(self, outlook: Outlook) -> dict[str, Any]:
        curve, found = outlook.curve, outlook.forecast
        return {
            "kind": "forecast",
            "store": self._run.labels[curve.build.series],
            "dataset": curve.build.dataset,
            "index_params": dict(curve.build.index_params),
            "metric": curve.quantity.metric,
            "unit": curve.quantity.unit,
            "clients": curve.quantity.clients,
            "recall": self._recall if _at_recall(curve) else None,
            **({"search_params": dict(curve.quantity.setting)} if curve.quantity.is_recall else {}),
            "law": str(outlook.law),
            "sizes": curve.sizes,
            "values": curve.values,
            "disturbed_sizes": curve.disturbed,
            "rows": found.rows,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "usable": not outlook.too_wide,
            **({"remedy": outlook.remedy} if outlook.too_wide else {}),
            **({} if outlook.measured is None else {"measured": outlook.measured}),
            **({} if outlook.is_in_interval is None else {"inside": outlook.is_in_interval}),
        }

    def _sizing(self, sizing: Sizing, demand: Demand) -> dict[str, Any]:
        return {
            "kind": "sizing",
            "store": self._run.labels[sizing.build.series],
            "dataset": sizing.build.dataset,
            **asdict(demand),
            "clients": sizing.clients,
            "reason": sizing.reason or None,
            **{
                by: None if found is None else {**asdict(found), "nodes": found.nodes}
                for by, found in (("median", sizing.expected), ("worse_end", sizing.cautious))
            },
        }


def _at_recall(curve: Curve) -> bool:
    """True if the quantity was read off at the wanted recall."""
    quantity = curve.quantity
    return quantity.clients is not None and not quantity.is_recall and not quantity.exact


def _select_stores(found: list[Curve], stores: Sequence[str], run: RunData) -> list[Curve]:
    for name in stores:
        if name not in run.stores:
            known = ", ".join(run.stores)
            raise UserError(
                f"'{name}' is not in this run", where="--store", remedy=f"it holds {known}"
            )
    return [curve for curve in found if not stores or curve.build.series.store in stores]


def _measured_sizes(found: Sequence[Curve], run: Path) -> tuple[int, int]:
    """The smallest and the largest size of curves that have a growth."""
    from vectrial.stats.growth import LEAST_SIZES

    sizes = [curve.sizes for curve in found if curve.growth is not None]
    if not sizes:
        most = max((len(curve.sizes) for curve in found), default=1)
        raise UserError(
            f"a forecast needs {LEAST_SIZES} sizes of one dataset, and this run has {most}",
            where=str(run),
            remedy="give the dataset several times with different rows, as in suites/growth.toml",
        )
    return min(one[0] for one in sizes), max(one[-1] for one in sizes)


def _rows(text: str) -> float:
    """A number of rows, such as 1e9, 10M or 1_000_000."""
    found = _ROWS.fullmatch(text.strip().replace("_", "").replace(",", ""))
    number = float(found[1]) * _FACTORS[found[2]] if found else 0.0
    if not 2 <= number <= _MOST_ROWS:
        raise UserError(
            f"'{text}' is not a number of rows", where="--rows", remedy="as in 1e9, 10M or 500000"
        )
    return number


def _size(text: str) -> int:
    try:
        return size_bytes(text)
    except ValueError as error:
        raise UserError(str(error), where="--node-memory") from error


def _prices(file: Path | None, run: RunData) -> Prices | None:
    """The price sheet of a file, or of the run's suite; None if neither has one."""
    if file is None:
        from vectrial.analysis.cost_basis import prices_of

        return prices_of(run)
    return read_prices(file)
