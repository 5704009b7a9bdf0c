"""The modules of the Rust engine import one way: there is no cycle among the top-level ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "engine" / "src"
_COMMENT = re.compile(r"//.*")
_PATH = re.compile(r"\b(crate|(?:super::)*super)::(\{[^;]*|\w+)")
_NESTED = re.compile(r"\{[^{}]*\}")
_INLINE = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?mod \w+ \{$")


def modules(root: Path) -> dict[str, set[str]]:
    """Each top-level module with the other top-level ones that its files name."""
    out: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.rs")):
        parts = path.relative_to(root).with_suffix("").parts
        inside = parts[:-1] if parts[-1] == "mod" else parts
        if inside != ("lib",):
            out.setdefault(inside[0], set()).update(_named(path.read_text(), len(inside)))
    return {name: (named & out.keys()) - {name} for name, named in out.items()}


def _named(text: str, depth: int) -> set[str]:
    """What `crate::…` and `super::…` reach at the root, from a file `depth` modules below it."""
    out: set[str] = set()
    lines = [_COMMENT.sub("", line) for line in text.splitlines()]
    code = "\n".join(lines)
    depths = [0] * len(lines)
    within: list[str] = []
    for number, line in enumerate(lines):
        if within and line == within[-1] + "}":
            within.pop()
        depths[number] = depth + len(within)
        if opened := _INLINE.match(line):
            within.append(opened[1])
    for match in _PATH.finditer(code):
        line = code.count("\n", 0, match.start())
        if match[1] == "crate" or match[1].count("super") == depths[line]:
            names = match[2].lstrip("{")
            while _NESTED.search(names):
                names = _NESTED.sub("", names)
            out.update(re.findall(r"(?:^|,)\s*(\w+)", names.split("}")[0]))
    return out


def files(folder: Path) -> dict[str, set[str]]:
    """Each file of a folder, `mod.rs` aside, with the other ones that it names."""
    inside = "::".join(("crate", *folder.relative_to(SOURCES).parts))
    names = re.compile(rf"\b(?:{inside}|super)::(?:\{{([^;]*)|(\w+))")
    out = {}
    for path in folder.glob("*.rs"):
        code = "\n".join(_COMMENT.sub("", line) for line in path.read_text().splitlines())
        found = {word for pair in names.findall(code) for word in re.findall(r"\w+", "".join(pair))}
        out[path.stem] = found
    out.pop("mod", None)
    return {name: (named & out.keys()) - {name} for name, named in out.items()}


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one cycle, the first of them again at the end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_modules_import_one_way() -> None:
    graph = modules(SOURCES)
    assert {"run", "record", "protocols", "transport", "codec", "python"} <= graph.keys()
    assert graph["run"] >= {"record", "protocol"}
    assert graph["protocols"] >= {"protocol", "transport"}
    assert files(SOURCES / "run")["stage"] >= {"plan", "request_log"}
    assert not (found := cycle(graph)), f"the engine's modules form a cycle: {' -> '.join(found)}"


FOLDERS = sorted({path.parent for path in SOURCES.rglob("mod.rs")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda one: one.relative_to(SOURCES).as_posix())
def test_files_of_a_folder_import_one_way(folder: Path) -> None:
    assert not (found := cycle(files(folder))), f"a cycle: {' -> '.join(found)}"


@pytest.mark.parametrize(
    "upward",
    [
        "use crate::run::Plan;",
        "use crate::{codec::{Reader, Value}, run::Plan};",
        "fn plan() -> super::super::run::Plan {}",
        "mod tests {\n    use super::super::super::run::Plan;\n}",
    ],
)
def test_a_cycle_is_found(tmp_path: Path, upward: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "record").mkdir()
    (tmp_path / "lib.rs").write_text("mod codec;\nmod record;\nmod run;\nuse crate::run::Plan;\n")
    (tmp_path / "codec.rs").write_text("use super::codec::Reader; // crate::run::Plan\n")
    (tmp_path / "run" / "mod.rs").write_text("use crate::record::windows::Windows;\n")
    (tmp_path / "record" / "windows.rs").write_text("use super::recall::Judge;\n")
    assert cycle(modules(tmp_path)) == []
    (tmp_path / "record" / "windows.rs").write_text(upward + "\n")
    found = cycle(modules(tmp_path))
    assert set(found) == {"run", "record"}
    assert found[0] == found[-1]
