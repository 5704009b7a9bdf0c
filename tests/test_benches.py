"""The page of the benches: what a script says anew replaces what it said, and nothing else."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("bench_table", ROOT / "bench" / "table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _figure(script: str, name: str, date: str) -> dict[str, Any]:
    return {
        "script": script, "machine": "one of two", "revision": "abc", "date": date, "name": name,
        "value": 2.0, "low": 1.0, "high": 3.0, "unit": "s", "baseline": None, "ratio": None,
        "goal": 1.0, "met": False,
    }  # fmt: skip


def test_only_what_was_run_anew_is_replaced() -> None:
    table = _table()
    kept = [_figure("truth", "old", "2026-01-01"), _figure("serve", "gone", "2026-01-01")]
    new = [_figure("serve", "now", "2026-02-02"), _figure("serve", "later", "2026-02-02")]
    figures = table.merged(kept, new)
    assert [one["name"] for one in figures] == ["now", "later", "old"]
    page = table.page_of(figures)
    serve, truth = page.split("## bench/")[1:]
    assert "2026-02-02" in serve
    assert "| now | 2 | 1 – 3 | s |  |  | ≤ 1 | **not met** |" in serve
    assert "2026-01-01" in truth
    assert "gone" not in page


def test_the_page_is_what_was_kept() -> None:
    lines = (ROOT / "docs" / "benches.jsonl").read_text("utf-8").splitlines()
    page = _table().page_of([json.loads(line) for line in lines])
    assert page == (ROOT / "docs" / "benches.md").read_text("utf-8")
