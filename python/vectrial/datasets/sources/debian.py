"""Debian's packages: short descriptions and what the package lists say of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from vectrial.model.errors import SourceUnavailable
from vectrial.model.progress import Progress

_FACETS = ("role", "implemented-in", "interface", "use", "works-with", "suite", "field")
_HOST = re.compile(r"https?://([^/:]+)")
_MAIL = re.compile(r"@([^>\s]+)>")
#: Value of a text that a package does not have: not every store keeps missing values.
NONE = "none"
_FEWEST = 1_000  # a machine without package lists still knows what is installed

_COLUMNS: dict[str, pa.DataType] = {
    "package": pa.string(),
    "source": pa.string(),
    "version": pa.string(),
    "section": pa.string(),
    "area": pa.string(),
    "priority": pa.string(),
    "architecture": pa.string(),
    "multi_arch": pa.string(),
    "maintainer": pa.string(),
    "maintainer_domain": pa.string(),
    "homepage_domain": pa.string(),
    "download_size": pa.int64(),
    "installed_kib": pa.int64(),
    "n_depends": pa.int64(),
    "n_recommends": pa.int64(),
    "has_suggests": pa.bool_(),
    "tags": pa.string(),
    **{facet.replace("-", "_"): pa.string() for facet in _FACETS},
    "description": pa.string(),
}
_SCHEMA = pa.schema(_COLUMNS)


def read(progress: Progress) -> tuple[list[str], pa.Table, str]:
    """Descriptions, a table of 25 columns, and a note on which lists these are.

    If a package has several tags of a facet, the first in order is its value; `tags` holds all of
    them, comma-separated. No value is missing: a text that a package does not have is `NONE`.

    Raises:
        SourceUnavailable: this is not Debian, or it has no package lists.
    """
    if shutil.which("apt-cache") is None:
        raise SourceUnavailable(
            "package descriptions need apt-cache, which is not here",
            remedy="it comes with Debian and Ubuntu only",
        )
    progress(0, 0, "reading the package lists")
    result = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=False)
    found: dict[str, dict[str, Any]] = {}
    for entry in paragraphs(result.stdout):
        if "Package" in entry and "Description" in entry:
            found.setdefault(entry["Package"], describe(entry))
    if result.returncode or len(found) < _FEWEST:
        raise SourceUnavailable(
            f"the package lists on this machine name {len(found)} packages",
            remedy="run `apt-get update` first",
        )
    rows = [found[name] for name in sorted(found)]
    note = f"{len(rows)} packages in this machine's lists; other lists give other rows"
    return [row["description"] for row in rows], pa.Table.from_pylist(rows, schema=_SCHEMA), note


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Entries of a control file: `Key: value`, continued by lines that begin with a space."""
    for block in text.split("\n\n"):
        entry: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line.startswith((" ", "\t")):
                if key:
                    entry[key] += "\n" + line.strip()
                continue
            key, _, value = line.partition(":")
            entry[key] = value.strip()
        if entry:
            yield entry


def describe(entry: dict[str, str]) -> dict[str, Any]:
    """The metadata of one package."""
    area, _, section = entry.get("Section", "unknown").rpartition("/")
    tags = sorted(tag for tag in re.split(r"[,\s]+", entry.get("Tag", "")) if tag)
    row: dict[str, Any] = {
        "package": entry["Package"],
        "source": entry.get("Source", entry["Package"]).split(" ")[0],
        "version": entry.get("Version", NONE),
        "section": section,
        "area": area or "main",
        "priority": entry.get("Priority", NONE),
        "architecture": entry.get("Architecture", NONE),
        "multi_arch": entry.get("Multi-Arch", "no"),
        "maintainer": entry.get("Maintainer", NONE),
        "maintainer_domain": _found(_MAIL, entry.get("Maintainer", "")),
        "homepage_domain": _found(_HOST, entry.get("Homepage", "")),
        "download_size": int(entry.get("Size", 0)),
        "installed_kib": int(entry.get("Installed-Size", 0)),
        "n_depends": _count(entry.get("Depends", "")),
        "n_recommends": _count(entry.get("Recommends", "")),
        "has_suggests": "Suggests" in entry,
        "tags": ",".join(tags) or NONE,
        "description": entry["Description"].partition("\n")[0],
    }
    for facet in _FACETS:
        values = [tag.partition("::")[2] for tag in tags if tag.startswith(f"{facet}::")]
        row[facet.replace("-", "_")] = values[0] if values else NONE
    return row


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1).lower() if match else NONE


def _count(packages: str) -> int:
    return packages.count(",") + 1 if packages else 0
