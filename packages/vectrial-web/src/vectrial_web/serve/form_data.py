"""Forms that are sent to us: whose they are, and what they hold."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

#: Bytes and fields of a form.
MOST_BYTES = 64 << 10
_MOST_FIELDS = 500


def is_own(request: Request) -> bool:
    """True for a form sent by one of our own pages, or by no page at all."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def fields(request: Request, most_bytes: int = MOST_BYTES) -> dict[str, list[str]]:
    """The values of a form by the names of its fields; none if it is longer than a form of ours."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            return {}
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        return {}
