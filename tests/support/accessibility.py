"""The accessibility checker axe, which the repository does not hold, and what it finds."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

from browser import Browser

from vectrial.testing.server_programs import not_here
from vectrial.util.paths import downloads_dir

AXE = "axe-core@4.14.1"


def checker(folder: Path) -> str:
    """Its script, fetched into `folder` unless it is kept; `not_here` where it cannot be had."""
    kept = downloads_dir() / f"{AXE.replace('@', '-')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        not_here("axe", f"{AXE} is fetched by npm, which is not installed")
    try:
        got = subprocess.run(
            [npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        not_here("axe", f"npm did not fetch {AXE} within two minutes")
    if got.returncode:
        not_here("axe", f"npm cannot fetch {AXE}: {got.stderr.strip()[-300:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        script = member.read().decode("utf-8")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(script, encoding="utf-8")
    return script


def violations(chromium: Browser, axe: str) -> list[str]:
    """What the checker finds on the page that is open, serious and critical."""
    chromium.value(f"{axe};0")
    found = chromium.value("axe.run().then((r) => JSON.stringify([r.passes.length, r.violations]))")
    passes, bad = json.loads(found)
    assert passes > 15, "the checker looked at the page"
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}: {one['nodes'][0]['failureSummary'][:300]}"
        for one in bad
        if one["impact"] in ("serious", "critical")
    ]
