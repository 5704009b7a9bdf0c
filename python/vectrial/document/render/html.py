"""The report as one HTML file that opens offline, and the same pages where they are served.

Nothing is requested from anywhere: the page's policy forbids it, and allows no style or script but
the two that are part of it, by their hashes. A file has this policy in its head, together with the
rule to send no referrer; a served page has both in the headers of the answer. All text is escaped
by the template; drawings come from the chart library, which escapes what it draws.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from vectrial.document.blocks import (
    HEAD,
    Block,
    Figure,
    Report,
    Source,
    Table,
    footnotes,
    groups_of,
)
from vectrial.document.charts.styles import shape, variables
from vectrial.document.render import draw

_TEMPLATES = Path(__file__).parent / "templates"
#: Policy that lets a served page load the icon and the events of a run from its own server.
_SERVED = "img-src 'self'; connect-src 'self'"


@dataclass(frozen=True)
class HtmlPage:
    """A page and the content security policy that it needs."""

    text: str
    policy: str


@dataclass(frozen=True)
class DownloadKinds:
    """Kinds of files beside figures and tables."""

    figure: tuple[str, ...] = ("svg", "png")
    table: tuple[str, ...] = ("csv", "parquet")


class PagePlace(Protocol):
    """Place of a page among others, with its links. crumbs, links: (name, address)."""

    @property
    def is_served(self) -> bool:
        """True if our server serves the page, with the policy in its headers and an icon."""

    @property
    def home(self) -> str:
        """The address of the first page."""

    @property
    def kinds(self) -> DownloadKinds:
        """Kinds of files that are offered."""

    @property
    def crumbs(self) -> Sequence[tuple[str, str]]:
        """The pages above this one."""

    @property
    def links(self) -> Sequence[tuple[str, str]]:
        """Related pages."""

    def figure(self, figure: Figure, kind: str) -> str:
        """The address of a figure as 'svg' or 'png'."""

    def table(self, table: Table, kind: str) -> str:
        """The address of a table as 'csv' or 'parquet'."""

    def embed(self, figure: Figure) -> str:
        """HTML that shows a figure on another page; empty if its address is not known."""

    def source(self, source: Source) -> str:
        """The page of the values behind a figure."""

    def link(self, href: str) -> str:
        """The address of `href` below the root."""


def render(report: Report) -> str:
    """The whole HTML file of a report."""
    return page(report).text


def page(
    report: Report,
    place: PagePlace | None = None,
    *,
    template: str = "report.html.j2",
    more: Path | None = None,
    **context: Any,
) -> HtmlPage:
    """A report as a page.

    Args:
        place: where it is served; None for a file.
        template: template that lays it out, called with `context` too.
        more: a folder with further templates, and with `style.css` and `script.js` to add.
    """
    folders = [_TEMPLATES] if more is None else [_TEMPLATES, more]
    style = _variables(report) + _read_files(folders, "style.css")
    script = _read_files(folders, "script.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
    if place is None:
        policy += "base-uri 'none'; form-action 'none'"
    elif not place.is_served:
        policy += "img-src data:; base-uri 'none'; form-action 'none'"
    else:
        policy += f"{_SERVED}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    text = (
        _environment(tuple(reversed(folders)))
        .get_template(template)
        .render(
            report=report,
            at=place,
            policy=policy,
            style=Markup(style),
            script=Markup(script),
            kind=_kind,
            drawings=lambda figure: _drawings(figure, report),
            colour=lambda series: f"var(--s{report.stores.index(series.store)})",
            shape=lambda series: shape(report.like.get(series, series), report.labels),
            table_parts=_table_parts,
            **context,
        )
    )
    return HtmlPage(text, policy)


@lru_cache(maxsize=8)
def _environment(folders: tuple[Path, ...]) -> Environment:
    """The template environment, cached so that templates are compiled once."""
    return Environment(
        loader=FileSystemLoader(list(folders)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _read_files(folders: Sequence[Path], name: str) -> str:
    return "".join((folder / name).read_text(encoding="utf-8") for folder in folders)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _variables(report: Report) -> str:
    def block(dark: bool) -> str:
        pairs = variables(report.stores, dark).items()
        return ";".join(f"{name}:{value}" for name, value in pairs)

    return (
        f":root{{{block(False)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{block(True)}}}}}\n"
        f"@media screen{{:root[data-theme=light]{{{block(False)}}}"
        f":root[data-theme=dark]{{{block(True)}}}}}\n"
    )


def _kind(block: Block) -> str:
    return type(block).__name__.lower()


def _drawings(figure: Figure, report: Report) -> list[tuple[str, Markup]]:
    """The two drawings of a figure: (class, SVG), one for wide and one for narrow screens."""
    label = str(escape(figure.alt))
    return [
        (name, Markup(draw.inline(draw.svg(figure, width, False), report.stores, label)))
        for name, width in (("wide", draw.WIDE), ("narrow", draw.NARROW))
    ]


def _table_parts(table: Table) -> Mapping[str, Any]:
    marks, notes = footnotes(table)
    groups = groups_of(table.columns)
    return {
        "marks": marks,
        "head": HEAD,
        "notes": notes,
        "groups": groups if any(name for name, _ in groups) else [],
        "starts": _group_starts(groups),
        "swatches": any(row.series is not None for row in table.rows),
        "prose": not any(column.numeric for column in table.columns),
    }


def _group_starts(groups: list[tuple[str, int]]) -> set[int]:
    """Indices of the columns before which a group begins or ends, for a line between them."""
    starts, at = set(), 0
    for name, span in groups:
        if name or at:
            starts.add(at)
        at += span
    return starts if len(groups) > 1 else set()
