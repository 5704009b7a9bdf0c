"""Saying the token once: the page that asks for it, and the session that follows."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from vectrial_web.serve.auth import COOKIE, SESSION_S, Access, place_within
from vectrial_web.serve.form_data import fields, is_own

#: Bytes of what is sent.
_MOST = 4096


def routes(access: Access, page: Callable[..., Response]) -> list[Route]:
    """The routes `/login` and `/logout`. page: draws the form from a status, `wrong` and
    `after`."""

    def form(request: Request) -> Response:
        after = place_within(request.query_params.get("next", "/"))
        if access.token is None:
            return RedirectResponse(after, status_code=303)
        return page(wrong="", after=after)

    async def login(request: Request) -> Response:
        if not is_own(request):
            return PlainTextResponse("Another site sent this.\n", status_code=403)
        sent = {name: values[0] for name, values in (await fields(request, _MOST)).items()}
        after = place_within(sent.get("next", "/"))
        if access.enough_wrong():
            return page(429, wrong="Too many wrong tokens: wait a minute.", after=after)
        if not access.token_is_right(sent.get("token", "")):
            access.was_wrong()
            return page(403, wrong="That is not the token.", after=after)
        answer = RedirectResponse(after, status_code=303)
        answer.set_cookie(
            COOKIE, access.begin(), max_age=SESSION_S, httponly=True, samesite="strict"
        )
        return answer

    def logout(request: Request) -> Response:
        if not is_own(request):
            return PlainTextResponse("Another site sent this.\n", status_code=403)
        access.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(COOKIE)
        return answer

    return [
        Route("/login", form, methods=["GET"]),
        Route("/login", login, methods=["POST"]),
        Route("/logout", logout, methods=["POST"]),
    ]
