"""`vectrial init`: a commented suite file, from options or from answers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from vectrial.cli import options
from vectrial.cli.output import Format, print_json, say, stderr_console
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import UserError
from vectrial.plan.quick import REPEATS, Contender, plain_suite
from vectrial.questions.bench import DATASET, index_of
from vectrial.questions.contenders import contenders, named_shape
from vectrial.results.folder import replace_text
from vectrial.run.prepare import plan_of
from vectrial.stores import registry
from vectrial.suite.commented import commented_text
from vectrial.suite.model import Suite
from vectrial.suite.validation import validate
from vectrial.util.suggest import suggestion

_EXPERIMENTS = ("ingest", "storage", "search")
#: Stores of a suite that names none.
_STORES = 3
#: Name that means stdout instead of a file.
_STDOUT = Path("-")


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write; - is stdout.")
    ] = Path("suite.toml"),
    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Store to measure (repeatable).",
            show_default="three libraries that work here",
        ),
    ] = None,
    dataset: options.DatasetOption = DATASET,
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            "--experiment",
            metavar="EXPERIMENT",
            help="Experiment; see `vectrial experiments` (repeatable).",
            show_default=" ".join(_EXPERIMENTS),
        ),
    ] = None,
    rows: options.RowsOption = None,
    repeats: options.RepeatsOption = REPEATS,
    k: options.KOption = 10,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the suite.", show_default="from the file name"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    form: options.FormatOption = Format.TABLE,
) -> None:
    """Write a suite FILE with a comment on each key. On a terminal, without options, it asks.

    \b
    vectrial init                             ask, and write suite.toml
    vectrial init mine.toml --store weaviate --store pgvector --dataset mine
    vectrial init - --experiment filtered     print it

    Graph indexes get equal build parameters, and searches a range of settings. The file can be
    measured as it is: `vectrial run FILE`. Prints the path of the file; with --format jsonl an
    object with the file, its text, and the stores and experiments that will be skipped.

    Exit codes: 0 success, 1 cancelled at a prompt, 2 invalid input, or the file exists.
    """
    if file != _STDOUT and file.exists() and not force:
        raise UserError("the file exists already", where=str(file), remedy="--force replaces it")
    wanted = _Answers(
        name or (file.stem if file != _STDOUT else "suite"),
        tuple(store or ()),
        dataset,
        tuple(experiment or _EXPERIMENTS),
        rows,
        repeats,
        k,
    )
    given = store or experiment or rows or dataset != DATASET
    if not given and sys.stdin.isatty() and sys.stderr.isatty():
        wanted = _ask_questions(wanted)
    suite = _suite(wanted)
    plan = plan_of(suite, str(file))  # names and values are checked before anything is written
    text = commented_text(suite, EXPERIMENTS, _HEAD)
    if file != _STDOUT:
        replace_text(file, text)
    console, at = stderr_console(), shlex.quote(str(file))
    if form is Format.JSONL:
        skipped = [
            {"store": one.row.store, "experiment": one.row.experiment, "reason": one.reason}
            for one in plan.refusals
        ]
        print_json([{"file": str(file), "suite": text, "skipped": skipped}])
        return
    for what, reason in plan.skipped:
        say(console, f"! skipped: {what}: {reason}")
    if file == _STDOUT:
        print(text, end="")
        return
    print(file)
    say(console, f"vectrial run {at} --dry-run    # the plan and a time estimate")
    say(console, f"vectrial run {at}")


_HEAD = (
    "A suite of Vectrial: `vectrial run FILE --dry-run` prints its plan, `vectrial run FILE` "
    "measures it. Lists among `params` and search parameters are grids. docs/suites.md explains "
    "all keys; `vectrial experiments` lists the parameters of each experiment.",
)


@dataclass(frozen=True)
class _Answers:
    """Answers to the questions. stores: if empty, some that work here."""

    name: str
    stores: tuple[str, ...]
    dataset: str
    experiments: tuple[str, ...]
    rows: int | None
    repeats: int
    k: int

    def contenders(self) -> list[Contender]:
        """The stores, each with the index to build.

        Raises:
            UserError: an unknown store.
        """
        kinds = [registry.load(name) for name in dict.fromkeys(self.stores)]
        return [Contender(kind, index_of(kind, None)) for kind in kinds]


def _ask_questions(defaults: _Answers) -> _Answers:
    """Ask the questions, with the defaults from `defaults`; returns the answers."""

    def ask(question: str, default: str, check: Callable[[str], Any]) -> str:
        while True:
            answer = str(typer.prompt(question, default=default, err=True)).strip()
            try:
                check(answer)
            except UserError as error:
                typer.echo(f"  {error}", err=True)
            else:
                return answer

    dataset = ask("Dataset (`vectrial data list`)", defaults.dataset, _shape)
    default = " ".join(_default_stores(dataset))
    stores = ask("Stores (`vectrial stores`)", default, _check_words(registry.load))
    experiments = ask(
        "Experiments (`vectrial experiments`)",
        " ".join(defaults.experiments),
        _check_words(_experiment),
    )
    rows = ask("Rows", "all", lambda text: _rows(text, dataset))
    repeats = ask("Repeats (3 give an interval)", str(defaults.repeats), _number)
    return replace(
        defaults,
        dataset=dataset,
        stores=tuple(_words(stores)),
        experiments=tuple(_words(experiments)),
        rows=_rows(rows, dataset),
        repeats=_number(repeats),
    )


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _check_words(check: Callable[[str], Any]) -> Callable[[str], None]:
    def all_of(text: str) -> None:
        if not _words(text):
            raise UserError("at least one is needed")
        for word in _words(text):
            check(word)

    return all_of


def _number(text: str) -> int:
    if not (text.isdigit() and int(text)):
        raise UserError(f"'{text}' is not a number of at least 1")
    return int(text)


def _rows(text: str, dataset: str) -> int | None:
    rows = None if text == "all" else _number(text)
    named_shape(dataset, rows)
    return rows


def _shape(dataset: str) -> None:
    named_shape(dataset)


def _experiment(name: str) -> None:
    if name not in EXPERIMENTS:
        raise UserError(f"'{name}' is not an experiment", remedy=suggestion(name, EXPERIMENTS))


def _default_stores(dataset: str) -> Sequence[str]:
    able, _ = contenders((), named_shape(dataset).metric, 1)
    return [one.store.name for one in able[:_STORES]]


def _suite(answers: _Answers) -> Suite:
    chosen = (
        answers
        if answers.stores
        else replace(answers, stores=tuple(_default_stores(answers.dataset)))
    )
    for name in chosen.experiments:
        _experiment(name)
    rows = {} if answers.rows is None else {"rows": answers.rows}
    plain = plain_suite(
        answers.name,
        {"name": answers.dataset, **rows},
        chosen.contenders(),
        answers.experiments,
        answers.repeats,
        answers.k,
    )
    return validate(Suite, plain, "vectrial init")
