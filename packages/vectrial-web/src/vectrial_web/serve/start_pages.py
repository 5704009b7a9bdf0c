"""Pages that start, continue and stop runs, where only this machine has access."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from vectrial.document.blocks import Report
from vectrial.model.errors import UserError
from vectrial.results.clean import clean_for_display
from vectrial.results.folder import is_own
from vectrial.results.reader import RunReader
from vectrial.run.prepare import RESOLVED, plan_of
from vectrial.suite.model import parse_suite, suite_text
from vectrial.util.formatting import plural
from vectrial_web.serve import answers, run_form
from vectrial_web.serve.answers import NEW, STARTED, Document, ServedPlace, run_address
from vectrial_web.serve.auth import Access, form_fields, is_own_form
from vectrial_web.serve.launcher import Launcher, OngoingRun, RunUnderWay
from vectrial_web.serve.run_form import (
    FormFaults,
    FormInput,
    PlannedForm,
    plan_form,
    with_machine_notes,
)
from vectrial_web.serve.runs import ListedRun, Runs, summary_of

#: A function that handles a form, given the request and the values of its fields.
_Act = Callable[[Request, Mapping[str, list[str]]], Response]
_HOME = (("Runs", "/"),)
#: Seconds after which a page that waits is loaded again.
_AGAIN = {"refresh": "2"}
_NOT_LOCAL = (
    "Runs are started only by a browser on this machine: vectrial serve must listen on a loopback"
    " address and be asked by it. Others, even with the token, could start programs here. From"
    " elsewhere forward the port: ssh -L 8877:localhost:8877 MACHINE."
)


class StartPages:
    """The form that starts a run, and the pages that follow."""

    def __init__(self, runs: Runs, access: Access, launcher: Launcher) -> None:
        self._runs, self._access, self._launcher = runs, access, launcher

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route(NEW, self._form, methods=["GET"]),
            Route(NEW, self._form_response(self._plan_or_start), methods=["POST"]),
            Route(STARTED, self._started_page, methods=["GET"]),
            Route("/stop", self._form_response(self._stop), methods=["POST"]),
            Route("/runs/{run}/continue", self._remainder_page, methods=["GET"]),
            Route("/runs/{run}/continue", self._form_response(self._continue), methods=["POST"]),
        ]

    def why_off(self, request: Request) -> str:
        """Why no run can be started; empty if one can."""
        return (
            self._launcher.why_off if self._access.is_local_request(request.headers) else _NOT_LOCAL
        )

    def stop_form(self, request: Request, run: ListedRun) -> Mapping[str, str] | None:
        """The fields of the form that stops a run under way; None if this page may not stop it."""
        if self.why_off(request) or (started := self._launcher.stoppable_process(run)) is None:
            return None
        return {"process": started.name, **self._token(request)}

    def _token(self, request: Request) -> dict[str, str]:
        return {"form": self._access.form_token(request.headers)}

    def _form_response(self, act: _Act) -> Callable[[Request], Awaitable[Response]]:
        """The response to a form that one of our own pages sent; 403 to any other."""

        async def answer(request: Request) -> Response:
            if why := self.why_off(request):
                return _message("No run can be started here", why, 403)
            sent = await form_fields(request)
            token = next(iter(sent.get("form", ())), "")
            ours = self._access.has_form_token(request.headers, token)
            if not (is_own_form(request) and ours):
                why = "The form is not of this page, or of an earlier session. Load it again."
                return _message("Nothing was done", why, 403)
            return await run_in_threadpool(act, request, sent)

        return answer

    def _form(self, request: Request) -> Response:
        if why := self.why_off(request):
            return _message("No run can be started here", why)
        if (busy := self._launcher.ongoing_run()) is not None:
            return _second_run_refusal(busy, 200)
        return self._page(request, FormInput())

    def _page(
        self,
        request: Request,
        filled: FormInput,
        plan: PlannedForm | None = None,
        faults: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> Response:
        context = {
            "filled": filled, "plan": plan, "faults": faults or {},
            "sent": [*filled.fields(), *self._token(request).items()],
            "token": self._token(request), "root": str(self._runs.root), "action": NEW,
            "suites": list(run_form.suites(self._runs.root)), "stores": run_form.stores(),
            "experiments": run_form.experiments(), "datasets": run_form.datasets(),
        }  # fmt: skip
        document = Document(
            Report("Start a run"), ServedPlace(NEW, crumbs=_HOME), "new.html.j2", context
        )
        return answers.document_response(document, status)

    def _plan_or_start(self, request: Request, sent: Mapping[str, list[str]]) -> Response:
        if (busy := self._launcher.ongoing_run()) is not None:
            return _second_run_refusal(busy)
        filled = FormInput.parse(sent)
        try:
            plan = plan_form(filled, self._runs.root)
        except FormFaults as error:
            return self._page(request, filled, faults=error.fields, status=422)
        if "start" not in sent or plan.fault:
            return self._page(request, filled, plan)
        if filled.seen != plan.digest:
            why = "The suite has changed since its plan was shown: this is its plan now."
            return self._page(request, filled, plan, {"plan": why}, 409)
        try:
            self._launcher.start(plan.suite, plan.text)
        except RunUnderWay as error:
            return _second_run_refusal(error.ongoing_run)
        return RedirectResponse(STARTED, status_code=303)

    def _started_page(self, request: Request) -> Response:
        """Redirect to the run started last; its process's output while there is no run yet."""
        started = self._launcher.started()
        if self.why_off(request) or started is None or started.root != self._runs.root:
            return RedirectResponse(NEW, status_code=303)
        alive = self._launcher.is_alive(started)  # before its run is looked for: it may just end
        run = self._launcher.run_of(started)
        if run is not None:
            return RedirectResponse(run_address(run.id), status_code=303)
        context = {
            "alive": alive, "says": started.says,
            "log": clean_for_display(self._launcher.tail(started)),
            "end": self._launcher.end(started), "file": str(started.log),
            "stop": {"process": started.name, **self._token(request)},
        }  # fmt: skip
        title = "A run begins" if alive else "The run did not begin"
        document = Document(
            Report(title), ServedPlace(STARTED, crumbs=_HOME), "started.html.j2", context
        )
        return answers.document_response(document, headers=_AGAIN if alive else {})

    def _stop(self, request: Request, sent: Mapping[str, list[str]]) -> Response:
        if not self._launcher.stop(next(iter(sent.get("process", ())), "")):
            why = "That run has ended already, or no page started it."
            return _message("Nothing was stopped", why, 409)
        return RedirectResponse(STARTED, status_code=303)

    def _remainder_page(self, request: Request) -> Response:
        """The page of the trials that an interrupted run has left to measure."""
        run = self._interrupted_run(request)
        if why := self.why_off(request):
            return _message("No run can be continued here", why)
        if (busy := self._launcher.ongoing_run()) is not None:
            return _second_run_refusal(busy, 200)
        plan, before = _remainder_of(run)
        address = run_address(run.id)
        context = {
            "plan": plan, "faults": {}, "before": before, "plural": plural,
            "action": f"{address}/continue", "sent": list(self._token(request).items()),
        }  # fmt: skip
        at = ServedPlace(f"{address}/continue", crumbs=(*_HOME, (run.title, address)))
        return answers.document_response(
            Document(Report("Continue"), at, "continue.html.j2", context)
        )

    def _continue(self, request: Request, sent: Mapping[str, list[str]]) -> Response:
        run = self._interrupted_run(request)
        plan, _ = _remainder_of(run)
        if plan.fault:
            return _message("The run cannot be continued here", plan.fault, 409)
        try:
            self._launcher.resume(run)
        except RunUnderWay as error:
            return _second_run_refusal(error.ongoing_run)
        return RedirectResponse(STARTED, status_code=303)

    def _interrupted_run(self, request: Request) -> ListedRun:
        run = self._runs.get(request.path_params["run"])
        if run is None:
            raise HTTPException(404, "there is no such run")
        unread = run.state == "unread"
        if not (summary_of(run.folder).finished is None if unread else run.state == "interrupted"):
            raise HTTPException(409, "the run was not interrupted: nothing is to be continued")
        return run


def _remainder_of(run: ListedRun) -> tuple[PlannedForm, int]:
    """The plan of an interrupted run's unmeasured part, and the number of its measured trials.

    Raises:
        UserError: it holds no suite, or this Vectrial cannot plan it.
    """
    path = run.folder / RESOLVED
    if not is_own(run.folder, path):
        raise UserError(f"the run holds no {RESOLVED}, so it cannot be continued", where=run.name)
    text = suite_text(path)
    suite = parse_suite(text, f"{run.name}/{RESOLVED}")
    with RunReader(run.folder) as reader:
        command = str(reader.run()["command"])
        rows = reader.rows("select key from trial where status in ('ok', 'invalid')")
    if any(word.partition("=")[0] == "--on" for word in command.split()):
        raise UserError(
            "the run was measured on a cluster, which this machine may not be",
            where=run.name,
            remedy=f"continue it in a terminal: vectrial run --resume {run.folder} --on …",
        )
    plan = plan_of(suite, f"{run.name}/{RESOLVED}")
    remainder = plan.without_trials({row["key"] for row in rows})
    return with_machine_notes(suite, text, remainder), len(plan.trials) - len(remainder.trials)


def _message(title: str, text: str, status: int = 200) -> Response:
    return answers.document_response(
        Document(Report(title, text), ServedPlace(NEW, crumbs=_HOME)), status
    )


def _second_run_refusal(busy: OngoingRun, status: int = 409) -> Response:
    """The refusal of a second run."""
    report = Report(
        "One run at a time", f"{busy.what}. A second one would disturb its measurements."
    )
    links = (("Go to the run under way", busy.href),) if busy.href else ()
    return answers.document_response(
        Document(report, ServedPlace(NEW, crumbs=_HOME, links=links)), status
    )
