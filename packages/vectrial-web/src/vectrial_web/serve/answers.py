"""Answers: a document as a page, and a file to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.responses import Response

from vectrial.document.render import html
from vectrial_web.serve.files import MEDIA
from vectrial_web.serve.urls import Document

_TEMPLATES = Path(__file__).parent / "templates"


def page(document: Document) -> html.HtmlPage:
    """A document, laid out by its template."""
    return html.page(
        document.report,
        document.at,
        template=document.template,
        more=_TEMPLATES,
        **document.context,
    )


def rendered(
    document: Document, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that shows a document."""
    return answer(page(document), status, headers)


def answer(
    page: html.HtmlPage, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The response that shows a page, with the content policy that it needs."""
    policy = {"content-security-policy": page.policy}
    return Response(
        page.text, status, {**(headers or {}), **policy}, media_type="text/html; charset=utf-8"
    )


def file(content: bytes, name: str) -> Response:
    """A file to download. Our file names contain only characters that a header can hold."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(content, headers=headers, media_type=MEDIA[name.rpartition(".")[2]])
