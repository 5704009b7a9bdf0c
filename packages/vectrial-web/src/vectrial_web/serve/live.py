"""News of runs under way, as server-sent events."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vectrial_web.serve.auth import Access
from vectrial_web.serve.runs import ListedRun, Runs

#: Pages that are told at once; each looks at a few files every so often.
_MOST = 32
#: Seconds between two looks: at one run, and at the whole folder. A measurement is under way.
_RUN_S, _ALL_S = 1.0, 3.0
#: Seconds without news after which a sign of life is sent.
_BEAT_S = 15.0
#: Answer to a page that is one too many; it asks again, which it would not after a refusal.
_FULL = "retry: 30000\nevent: full\ndata: {}\n\n"


class Streams:
    """The event streams."""

    def __init__(self, runs: Runs, access: Access, shutting_down: threading.Event) -> None:
        self._runs, self._access, self._ending, self._open = runs, access, shutting_down, 0

    async def _is_watching(self, request: Request) -> bool:
        """True while the client is connected and may still see it: a session ends."""
        admitted = self._access.admits(request.headers)
        return admitted and not self._ending.is_set() and not await request.is_disconnected()

    async def listing_events(self, request: Request) -> Response:
        """`changed` whenever the list is another than `known`, the `version_of` that the page was
        made of."""

        def look() -> tuple[str, str]:
            return "changed", version_of(self._runs.listing())

        known = ("changed", request.query_params.get("known", ""))
        return self._stream(request, look, _ALL_S, known)

    async def run_events(self, request: Request) -> Response:
        """`status`, the run's status as JSON, whenever it changes; `ended` when it is over."""
        name = request.path_params["run"]
        if await run_in_threadpool(self._runs.get, name) is None:
            raise HTTPException(404, "there is no such run")

        def look() -> tuple[str, str]:
            run = self._runs.get(name)
            if run is None or run.state != "running":
                return "ended", "{}"
            return "status", json.dumps(status_of(run))

        return self._stream(request, look, _RUN_S, None)

    def _stream(
        self,
        request: Request,
        read_event: Callable[[], tuple[str, str]],
        every_s: float,
        known: tuple[str, str] | None,
    ) -> Response:
        """A stream of the events that `read_event` finds. known: the event that the page already
        has."""
        if self._open >= _MOST:
            return Response(_FULL, media_type="text/event-stream")

        async def events() -> AsyncIterator[str]:
            self._open += 1
            try:
                last, said = known, time.monotonic()
                yield "retry: 3000\n\n"
                while await self._is_watching(request):
                    found = await run_in_threadpool(read_event)
                    now = time.monotonic()
                    if found != last:
                        last, said = found, now
                        yield f"event: {found[0]}\ndata: {found[1]}\n\n"
                        if found[0] == "ended":
                            return
                    elif now - said > _BEAT_S:
                        said = now
                        yield ": still here\n\n"
                    for _ in range(round(every_s / 0.25)):
                        if not self._ending.is_set():
                            await asyncio.sleep(0.25)
            finally:
                self._open -= 1

        return StreamingResponse(events(), media_type="text/event-stream")


def version_of(listing: Iterable[ListedRun]) -> str:
    """A hash that changes whenever a page of these runs must be rebuilt."""
    states = [(run.id, run.state, run.changed if run.summary else 0) for run in listing]
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]


def status_of(run: ListedRun) -> dict[str, object]:
    """The status of a run under way, for its page; times are seconds since 1970."""
    status = run.status
    if status is None:
        return {}
    share = status.part_done / status.part_of if status.part_of else None
    return {
        "done": status.done, "trials": status.trials, "counts": dict(status.counts),
        "job": status.job, "number": status.number, "jobs": status.jobs, "what": status.what,
        "share": share, "live": status.live, "recent": list(status.recent),
        "began": status.began, "updated": status.updated,
    }  # fmt: skip
