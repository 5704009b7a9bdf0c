"""The pages: which addresses there are, and what each shows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vectrial.analysis.run_data import RunData, load
from vectrial.compare import document
from vectrial.compare.build import DEFAULT_METRICS, metrics_of
from vectrial.compare.build import compare as compared
from vectrial.compare.cells import CompareOptions
from vectrial.compare.sides import pair
from vectrial.document.blocks import Report
from vectrial.document.render import html
from vectrial.model.errors import UserError
from vectrial.report.build import build
from vectrial.results import note
from vectrial.results.database import RunBeingWritten
from vectrial.results.foreign import FAULTS, TRACEBACK, foreign_value_error
from vectrial.util import formatting
from vectrial_web.serve import answers, auth
from vectrial_web.serve.answers import (
    NEW,
    Document,
    LruCache,
    ServedPlace,
    data_address,
    run_address,
)
from vectrial_web.serve.auth import Access, Guard
from vectrial_web.serve.changes_chart import changes
from vectrial_web.serve.files import DATA, figure_file, logs_of, table_file
from vectrial_web.serve.launcher import Launcher
from vectrial_web.serve.live import Streams, version_of
from vectrial_web.serve.runs import ListedRun, Runs
from vectrial_web.serve.start_pages import StartPages
from vectrial_web.serve.trial import trial_report
from vectrial_web.serve.trials import trials_report, values_report

#: Runs, reports and drawn pages that are kept in memory: making one takes seconds.
_KEPT = 8
#: Runs that one page of the list shows.
_PAGE = 250
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#0b5c94"'
    ' stroke-width="2"><path d="M3 20V4M3 20h18M5 8c6 0 11 2 14 9"/></svg>'
)


def make_app(runs: Runs, access: Access, shutting_down: threading.Event | None = None) -> ASGIApp:
    """The application. shutting_down: set when it is to stop, so that no page is waited for."""
    start = StartPages(runs, access, Launcher(runs))
    pages = _Pages(runs, access, start)
    streams = Streams(runs, access, threading.Event() if shutting_down is None else shutting_down)
    routes = [
        Route("/", pages.index),
        Route("/icon.svg", lambda request: Response(_ICON, media_type="image/svg+xml")),
        *auth.login_routes(access, _login),
        Route("/events", streams.listing_events),
        Route("/runs/{run}/events", streams.run_events),
        *start.routes(),
        *_document("/compare", pages.compare),
        *_document("/runs/{run}", pages.run),
        *_document("/runs/{run}/trials", pages.trials),
        *_document("/runs/{run}/trials/{trial}", pages.trial),
        *_document("/runs/{run}/values", pages.values),
        Route("/runs/{run}/data/{name}", pages.data),
        Route("/runs/{run}/logs/{name}", pages.log),
    ]  # fmt: skip
    handlers: dict[Any, Any] = {HTTPException: _refusal_page, UserError: _refusal_page}
    if not os.environ.get(TRACEBACK):
        handlers |= dict.fromkeys(FAULTS, _foreign_content_page)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


def _document(path: str, make: Callable[[Request], Document]) -> list[Route]:
    """The routes of a document, its figures and its tables."""
    drawn: LruCache[html.HtmlPage] = LruCache(_KEPT)

    def page(request: Request) -> Response:
        document = make(request)
        if document.key is None:
            return answers.document_response(document)
        return answers.page_response(drawn.get(document.key, lambda: answers.page(document)))

    def files(
        what: str, of: Callable[[Report], Iterable[Any]], kinds: Mapping[str, Callable[..., bytes]]
    ) -> Route:
        def answer(request: Request) -> Response:
            name, kind = request.path_params["name"], request.path_params["kind"]
            for one in of(make(request).report):
                if one.name == name and kind in kinds:
                    return answers.file_response(kinds[kind](one, kind), f"{name}.{kind}")
            raise HTTPException(404, f"there is no such {what}")

        return Route(f"{path}/{what}/{{name}}.{{kind}}", answer)

    return [
        files("figure", Report.figures, dict.fromkeys(("svg", "png"), figure_file)),
        files("table", Report.tables, dict.fromkeys(("csv", "parquet"), table_file)),
        Route(path, page),
    ]


def _login(status: int = 200, **context: str) -> Response:
    return answers.document_response(
        Document(Report("Token"), ServedPlace("/login"), "login.html.j2", context), status
    )


def _refusal_page(request: Request, error: Exception) -> Response:
    """A page with the reason why something cannot be shown."""
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    else:
        status, message = 400, str(error)
    title = "Not found" if status == 404 else "This cannot be shown"
    report = Report(title, message)
    return answers.document_response(
        Document(report, ServedPlace(request.url.path, crumbs=_HOME)), status
    )


def _foreign_content_page(request: Request, error: Exception) -> Response:
    """A page with the fault of a run whose content is not understood."""
    return _refusal_page(request, foreign_value_error(error, request.path_params.get("run", "")))


_HOME = (("Runs", "/"),)


class _Pages:
    """The pages of all addresses."""

    def __init__(self, runs: Runs, access: Access, start: StartPages) -> None:
        self._runs, self._access, self._start = runs, access, start
        self._loaded: LruCache[RunData] = LruCache(_KEPT)
        self._reports: LruCache[Report] = LruCache(_KEPT)
        self._trials: LruCache[tuple[Report, Mapping[str, list[str]]]] = LruCache(_KEPT)

    def index(self, request: Request) -> Response:
        """The list of runs."""
        every = self._runs.listing()
        chosen = {key: request.query_params.get(key, "") for key in ("q", *_FILTERS)}
        choices = {key: sorted({one for run in every for one in of(run)}, key=str.lower)
                   for key, of in _FILTERS.items()}  # fmt: skip
        found = [run for run in every if _matches(run, chosen)]
        at = max(0, _number(request.query_params.get("from", "0")))
        report = Report("Runs")
        context = {
            "root": str(self._runs.root), "runs": found[at : at + _PAGE], "found": len(found),
            "every": len(every), "asked": chosen, "choices": choices, "words": _WORDS,
            "unread": sum(run.state == "unread" for run in every), "first": at, "size": _PAGE,
            "address": run_address, "began": _began, "plural": formatting.plural,
            "asks": self._access.token is not None, "new": NEW, "version": version_of(every),
        }  # fmt: skip
        return answers.document_response(
            Document(report, ServedPlace("/"), "index.html.j2", context)
        )

    def run(self, request: Request) -> Document:
        """A run's report, or its progress."""
        run = self._find_run(request)
        address = run_address(run.id)
        if run.state == "running":
            return _running_page(run, self._start.stop_form(request, run))
        try:
            report, interrupted = self._report(run), not self._data(run).run.get("finished_at")
        except RunBeingWritten:
            return _running_page(run, None)  # its last words are said before its database is closed
        links = (
            ("All trials", f"{address}/trials"),
            ("Compare", f"/compare?a={run.id}"),
            *((("Continue", f"{address}/continue"),) if interrupted else ()),
            *((name, data_address(run.id, name)) for name in _OFFERED),
        )
        return Document(
            report, ServedPlace(address, (address,), _HOME, links), key=(run.id, run.changed)
        )

    def trials(self, request: Request) -> Document:
        """Every trial of a run."""
        run = self._find_run(request)
        chosen = {key: request.query_params.get(key, "") for key in _TRIAL_FILTERS}
        key = (run.id, run.changed, request.url.query)
        report, choices = self._trials.get(key, lambda: trials_report(run.folder, chosen))
        at = ServedPlace(
            f"{run_address(run.id)}/trials", (run_address(run.id),), (*_HOME, _crumb(run)),
            query=request.url.query,
        )  # fmt: skip
        context = {"asked": chosen, "choices": choices}
        return Document(report, at, "trials.html.j2", context, key)

    def trial(self, request: Request) -> Document:
        """One trial."""
        run, number = self._find_run(request), _number(request.path_params["trial"])
        found = trial_report(run.folder, number)
        if found is None:
            raise HTTPException(404, "the run has no such trial")
        report, logs = found
        address = run_address(run.id)
        crumbs = (*_HOME, _crumb(run), ("Trials", f"{address}/trials"))
        links = tuple((name, data_address(run.id, name)) for name in logs)
        return Document(
            report, ServedPlace(f"{address}/trials/{number}", (address,), crumbs, links)
        )

    def values(self, request: Request) -> Document:
        """The values from which a figure was made."""
        run = self._find_run(request)
        phases = [_number(one) for one in request.query_params.get("phases", "").split(",")]
        metric = request.query_params.get("metric", "")
        recall = _shares(request.query_params.get("recall", ""), "recall")
        report = values_report(run.folder, metric, phases, *recall[:1])
        if report is None:
            raise HTTPException(404, "nothing was measured under these names")
        address = run_address(run.id)
        at = ServedPlace(
            f"{address}/values", (address,), (*_HOME, _crumb(run)), query=request.url.query
        )
        return Document(report, at)

    def data(self, request: Request) -> Response:
        """A file of measurements."""
        run, name = self._find_run(request), request.path_params["name"]
        if name not in DATA:
            raise HTTPException(404, f"there is no such file; there are {', '.join(DATA)}")
        try:
            return answers.file_response(DATA[name](run.folder), name)
        except FileNotFoundError:
            raise HTTPException(404, f"the run holds no {name}") from None

    def log(self, request: Request) -> Response:
        """A log of a run."""
        run, name = self._find_run(request), request.path_params["name"]
        log = logs_of(run.folder).get(name)
        if log is None:
            raise HTTPException(404, "the run has no such log")
        return answers.file_response(log.read_bytes(), name)

    def _find_run(self, request: Request) -> ListedRun:
        run = self._runs.get(request.path_params["run"])
        if run is None:
            raise HTTPException(404, "there is no such run")
        return run

    def compare(self, request: Request) -> Document:
        """The comparison of two sides once they are chosen, always with the form that chooses
        them."""
        form = request.query_params
        chosen = [*form.getlist("run"), "", ""]
        a, b = (form.get(name) or chosen[i] for i, name in enumerate("ab"))
        context = {
            "a": a, "b": b, "runs": [run for run in self._runs.listing() if run.summary],
            "metrics": form.get("metric") or " ".join(DEFAULT_METRICS), "began": _began,
            "threshold": form.get("threshold") or "5", "recall": form.get("recall", ""),
        }  # fmt: skip
        at = ServedPlace("/compare", crumbs=_HOME, query=request.url.query)
        if not (a and b):
            about = "Two runs, store by store; or two stores, of one run or of two."
            report = Report("Compare", about)
        else:
            try:
                report, runs = self._comparison(a, b, context)
                at = replace(at, runs=runs)
            except UserError as error:
                report = Report("Compare", str(error))
        return Document(report, at, "compare.html.j2", context)

    def _comparison(
        self, a: str, b: str, parameters: dict[str, Any]
    ) -> tuple[Report, tuple[str, str]]:
        sides = []
        for side in (a, b):
            name, _, named = side.partition(":")
            run = self._runs.get(name)
            if run is None:
                raise UserError("there is no such run", where=name)
            sides.append((run, named or None))
        (run, store), (other, other_store) = sides
        wanted = CompareOptions(
            metrics_of(parameters["metrics"].split()), _shares(parameters["recall"], "recall")
        )
        threshold = _threshold(parameters["threshold"])
        found = compared(
            *pair(self._data(run), store, self._data(other), other_store), wanted, threshold
        )
        return document.report(found, changes), (run_address(run.id), run_address(other.id))

    def _report(self, run: ListedRun) -> Report:
        return self._reports.get((run.id, run.changed), lambda: build(self._data(run)))

    def _data(self, run: ListedRun) -> RunData:
        return self._loaded.get((run.id, run.changed), lambda: load(run.folder))


def _shares(text: str, name: str, unit: float = 1.0) -> tuple[float, ...]:
    """Numbers from a form, which must be from 0 to 1 when multiplied by `unit`."""
    try:
        found = tuple(float(one) * unit for one in text.replace(",", " ").split())
    except ValueError:
        found = (-1.0,)
    if not all(0 <= one <= 1 for one in found):
        raise UserError(f"'{text}' is not a {name}", remedy="write 5" if unit < 1 else "write 0.9")
    return found


def _threshold(text: str) -> float:
    """A number in percent from a form, as a share."""
    name = "threshold in percent"
    found = _shares(text, name, 0.01)
    if len(found) != 1:
        raise UserError(f"'{text}' is not a {name}", remedy="write 5")
    return found[0]


def _running_page(run: ListedRun, stop: Mapping[str, str] | None) -> Document:
    """The page of a run under way. stop: the fields of the form that stops it."""
    address = run_address(run.id)
    about = "" if run.status else run.why
    report = Report(run.title, about, (("Run", run.name),), note=note.read(run.folder))
    context = {"status": run.status, "events": f"{address}/events", "stop": stop}
    return Document(report, ServedPlace(address, (address,), _HOME), "live.html.j2", context)


def _crumb(run: ListedRun) -> tuple[str, str]:
    return run.title, run_address(run.id)


#: Links beside a run's title.
_OFFERED = ("measurements.csv", "measurements.parquet", "measurements.jsonl", "suite.toml")
_TRIAL_FILTERS = ("store", "experiment", "dataset", "status")
_FILTERS: dict[str, Callable[[ListedRun], tuple[str, ...]]] = {
    "store": lambda run: run.summary.stores if run.summary else (),
    "dataset": lambda run: run.summary.datasets if run.summary else (),
    "experiment": lambda run: run.summary.experiments if run.summary else (),
    "state": lambda run: (run.state,),
}
_WORDS = {
    "finished": "finished", "interrupted": "interrupted", "running": "under way",
    "unread": "being read", "unreadable": "cannot be read",
}  # fmt: skip


def _matches(run: ListedRun, parameters: dict[str, str]) -> bool:
    words = parameters["q"].lower().split()
    title = f"{run.title} {run.name} {run.summary.note if run.summary else ''}".lower()
    return all(word in title for word in words) and all(
        not parameters[key] or parameters[key] in of(run) for key, of in _FILTERS.items()
    )


def _number(text: str) -> int:
    """A number from an address; 0 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _began(run: ListedRun) -> str:
    return f"{datetime.fromtimestamp(run.at, UTC):%Y-%m-%d %H:%M}"
