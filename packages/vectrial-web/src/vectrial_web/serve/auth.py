"""Access to every page: host names, the token, forms and sessions, and the headers of every answer.

Any page that is open in a browser can request a page of this machine. A foreign name that leads
here (DNS rebinding) is refused by the Host header; a foreign page cannot read or frame an answer
because of its headers; and where a token is set, nothing is shown without it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "vectrial-session"
#: Seconds that a session lasts.
SESSION_S = 12 * 3600
#: Wrong tokens a minute before nobody is heard.
_TRIES = 10
#: Paths that are shown without the token.
_OPEN = ("/login", "/icon.svg")

#: Headers of every answer. A page has a policy of its own, which names its style and its script.
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": a browser then sends our own forms with "Origin: null", as a stranger's.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class Access:
    """The rules of who may see the pages.

    local: the server listens on loopback alone. names: further host names. token: None if no token
        is required.
    """

    local: bool = True
    names: Collection[str] = ()
    token: str | None = None
    _sessions: dict[bytes, float] = field(default_factory=dict, repr=False)
    _form_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _wrong: deque[float] = field(default_factory=lambda: deque(maxlen=_TRIES), repr=False)

    def is_own_host(self, host: str) -> bool:
        """True for a host (and port) that is ours. Any literal address is accepted if other
        machines may connect, since DNS rebinding needs a name."""
        name = _without_port(host).lower()
        if name == "localhost" or name in {one.lower() for one in self.names}:
            return True
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return address.is_loopback or not self.local

    def is_right_token(self, token: str) -> bool:
        """True if the token is right, in a time that does not reveal how much of it is right."""
        return self.token is not None and hmac.compare_digest(_hash(token), _hash(self.token))

    def has_too_many_failures(self) -> bool:
        """True if too many wrong tokens were tried in the last minute."""
        return len(self._wrong) == _TRIES and time.monotonic() - self._wrong[0] < 60

    def record_failure(self) -> None:
        """Record that a wrong token was tried."""
        self._wrong.append(time.monotonic())

    def begin(self) -> str:
        """Begin a session; returns its secret."""
        now = time.monotonic()
        for old in [key for key, ends in self._sessions.items() if ends < now]:
            del self._sessions[old]
        session = secrets.token_urlsafe(32)
        self._sessions[_hash(session)] = now + SESSION_S
        return session

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(_hash(session), None)

    def is_local_request(self, headers: Headers) -> bool:
        """True if only this machine can connect, and did so by a name that only it has: a proxy
        that others reach uses another name."""
        return self.local and is_loopback(
            _without_port(headers.get("host", "")).lower().strip("[]")
        )

    def form_token(self, headers: Headers) -> str:
        """The token of a session's forms, which another site can neither read nor guess. If no
        login token is required, there is a single session."""
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "") if self.token else ""
        return hmac.new(self._form_key, _hash(session), hashlib.sha256).hexdigest()

    def has_form_token(self, headers: Headers, token: str) -> bool:
        """True for a form with the token of its session."""
        return hmac.compare_digest(_hash(token), _hash(self.form_token(headers)))

    def admits(self, headers: Headers) -> bool:
        """True for a request with a session, or with the token itself."""
        if self.token is None:
            return True
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if self._sessions.get(_hash(session), 0.0) > time.monotonic():
            return True
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or self.has_too_many_failures():
            return False
        if self.is_right_token(bearer.strip()):
            return True
        self.record_failure()
        return False


class Guard:
    """The application, with every answer guarded."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or send to the page that asks for the token."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope)
        await (self._app if refused is None else refused)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._access.is_own_host(headers.get("host", "")):
            message = "This host name is not served here. vectrial serve --name NAME adds one.\n"
            return PlainTextResponse(message, status_code=421)
        if scope["path"] in _OPEN or self._access.admits(headers):
            return None
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            address = scope["path"] + (
                f"?{scope['query_string'].decode()}" * bool(scope["query_string"])
            )
            return RedirectResponse(f"/login?next={quote(address, safe='')}", status_code=303)
        message = "The token is asked for: Authorization: Bearer TOKEN\n"
        return PlainTextResponse(message, status_code=401, headers={"www-authenticate": "Bearer"})


def safe_path(place: str) -> str:
    """A safe path on this site to continue to, whatever was requested: never another host."""
    plain = place.isascii() and place.isprintable() and "\\" not in place
    return place if plain and place.startswith("/") and not place.startswith("//") else "/"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


#: Bytes and fields of a form.
_FORM_BYTES = 64 << 10
_FORM_FIELDS = 500


def is_own_form(request: Request) -> bool:
    """True for a form sent by one of our own pages, or by no page at all."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def form_fields(request: Request, most_bytes: int = _FORM_BYTES) -> dict[str, list[str]]:
    """The values of a form by the names of its fields; none if it is longer than a form of ours,
    or does not come whole."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > most_bytes:
                return {}
    except ClientDisconnect:
        return {}
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=_FORM_FIELDS)
    except ValueError:
        return {}


#: Bytes of what is sent.
_LOGIN_BYTES = 4096


def login_routes(access: Access, page: Callable[..., Response]) -> list[Route]:
    """The routes `/login` and `/logout`. page: draws the form from a status, `wrong` and
    `after`."""

    def form(request: Request) -> Response:
        after = safe_path(request.query_params.get("next", "/"))
        if access.token is None:
            return RedirectResponse(after, status_code=303)
        return page(wrong="", after=after)

    async def login(request: Request) -> Response:
        if not is_own_form(request):
            return PlainTextResponse("Another site sent this.\n", status_code=403)
        sent = {
            name: values[0] for name, values in (await form_fields(request, _LOGIN_BYTES)).items()
        }
        after = safe_path(sent.get("next", "/"))
        if access.has_too_many_failures():
            return page(429, wrong="Too many wrong tokens: wait a minute.", after=after)
        if not access.is_right_token(sent.get("token", "")):
            access.record_failure()
            return page(403, wrong="That is not the token.", after=after)
        answer = RedirectResponse(after, status_code=303)
        answer.set_cookie(
            COOKIE, access.begin(), max_age=SESSION_S, httponly=True, samesite="strict"
        )
        return answer

    def logout(request: Request) -> Response:
        if not is_own_form(request):
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
