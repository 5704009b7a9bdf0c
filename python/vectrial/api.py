"""Running suites and reading their results from Python; docs/python.md has an example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.compare.build import DEFAULT_METRICS, Comparison, metrics_of
from vectrial.compare.build import compare as judge
from vectrial.compare.cells import CompareOptions
from vectrial.compare.sides import sides_of
from vectrial.results.bundle import run_folder
from vectrial.results.foreign import foreign_value_errors
from vectrial.results.reader import RunReader
from vectrial.run.measuring import LineView, MeasureSettings, check, measure
from vectrial.run.place import HERE
from vectrial.run.prepare import new_folder, plan_of, toml_of
from vectrial.suite import builtin
from vectrial.suite.model import Suite, parse_suite, suite_text
from vectrial.suite.validation import validate

__all__ = ["Comparison", "Run", "compare", "open_run", "run_suite"]


def run_suite(
    suite: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    allow_exposed: bool = False,
    on: str = HERE,
) -> Run:
    """Measure a suite, as `vectrial run` does, and return its run.

    Args:
        suite: the path of a suite file, the name of a suite that comes with Vectrial ("demo"), or
            the suite as a dict with the same keys.
        out: the folder in which the run's own folder is made; `runs` unless given.
        progress: called with a line when a job begins, when a trial ends, and for other news.
        allow_exposed: also start servers that others on the network can reach.
        on: where to measure: "here", "ray" or "ray://HOST:PORT"; see docs/scale.md.

    Failed trials are in the results, with the reason. On KeyboardInterrupt the measurements so far
    are kept; `vectrial run --resume FOLDER` continues.

    Raises:
        UserError: the suite, its data or this machine do not allow it; nothing is left.
    """
    if isinstance(suite, Mapping):
        model, where = validate(Suite, dict(suite), "suite"), "suite"
        text = toml_of(model)
    else:
        file = builtin.suite_file(Path(suite))
        where, text = str(file), suite_text(file)
        model = parse_suite(text, where)
    plan, settings = (
        plan_of(model, where),
        MeasureSettings(allow_exposed=allow_exposed, place_name=on),
    )
    check(plan, settings, progress)
    folder = new_folder(None if out is None else Path(out), model)
    measure(plan, model, text, folder, lambda _: LineView(progress), settings)
    return Run(folder)


def open_run(path: str | Path) -> Run:
    """Open the run in a folder or in a bundle, whose checksums are verified.

    Raises:
        UserError: there is no run, it is being written, or it is newer than this Vectrial.
        DataError: a bundle was changed after it was sealed.
    """
    run = Path(path)
    with _reader(run) as reader:
        reader.run()
    return Run(run.resolve())


def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    recalls: Sequence[float] = (),
    experiments: Sequence[str] = (),
    threshold: float = 0.05,
) -> Comparison:
    """Compare B with A, as `vectrial compare` does.

    Args:
        a, b: runs; or text as on the command line, "RUN:STORE" for one store of a run.
        metrics: names of metrics. recalls: recalls at which searches are compared; by default those
            of 0.9, 0.95 and 0.99 that both reach. experiments: all unless given.
        threshold: differences within this share of A are ties.

    Raises:
        UserError: an unknown metric, no store in common, or nothing to compare.
    """
    first, second = (str(one.folder) if isinstance(one, Run) else str(one) for one in (a, b))
    options = CompareOptions(metrics_of(metrics), tuple(recalls), tuple(experiments))
    with foreign_value_errors(f"{first} and {second}"):
        return judge(*sides_of(first, second, ()), options, threshold)


@dataclass(frozen=True)
class Run:
    """The results of one execution of a suite, read-only.

    Tables are pyarrow's; docs/results-format.md explains their columns. Parameters are JSON text.

    folder: folder of the run, or the bundle that holds it.
    """

    folder: Path

    def trials(self) -> pa.Table:
        """A row for each trial: what was measured, its status, and the reason if it is not ok."""
        return self.table("trial")

    def phases(self) -> pa.Table:
        """A row for each timed part of a trial."""
        return self.table("phase")

    def metrics(self) -> pa.Table:
        """A row for each measured value, with its origin: store, index, dataset, experiment, phase,
        parameters, repeat, `metric`, `value`, `unit`, `valid`, `reason`."""
        with _reader(self.folder) as reader:
            return reader.measurements()

    def errors(self) -> pa.Table:
        """A row for each phase and class of error."""
        return self.table("error")

    def gate(self) -> pa.Table:
        """A row for each correctness check of each trial."""
        return self.table("gate")

    def datasets(self) -> pa.Table:
        """A row for each dataset that was loaded, at each number of rows."""
        return self.table("dataset")

    def table(self, name: str) -> pa.Table:
        """The results table of this name."""
        with _reader(self.folder) as reader:
            return reader.table(name)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The result of a query in DuckDB's SQL over these tables."""
        with _reader(self.folder) as reader:
            return reader.query(sql, list(parameters))

    def suite(self) -> str:
        """The suite, as TOML."""
        with _reader(self.folder) as reader:
            return reader.suite()

    def environment(self) -> dict[str, Any]:
        """The machine and the versions of the measurement."""
        with _reader(self.folder) as reader:
            found: dict[str, Any] = reader.run()["environment"]
            return found


@contextmanager
def _reader(run: Path) -> Iterator[RunReader]:
    with foreign_value_errors(run), run_folder(run) as folder, RunReader(folder) as reader:
        yield reader
