"""`tests/changes.toml` names every path and every store, and what it selects is what runs."""

from __future__ import annotations

import inspect
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import changes
import pytest
from changes import Changes, Selection, Table

from vectrial.servers.provide import recipe_of
from vectrial.stores import registry

TABLE = changes.read_table()
STORES = {name: registry.load(name) for name in registry.names()}
PINS = {f"pin/{name}" for name in changes._pins((changes.ROOT / changes.LOCK).read_text())}


def git(*arguments: str, at: Path = changes.ROOT) -> list[str]:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.quotePath=false")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=at, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_every_file_has_a_line_and_no_line_is_dead() -> None:
    files = {*git("ls-files"), *git("ls-files", "--others", "--exclude-standard"), *PINS}
    lines = {
        file: TABLE.line_of(file)
        for file in files
        if (changes.ROOT / file).exists() or file in PINS
    }
    folders = ("python", "packages", "engine", "tests", "docs", "suites", "requirements", "pin")
    unnamed = [file for file, line in lines.items() if line in (None, "**")]
    assert [file for file in unnamed if file.split("/")[0] in folders] == []
    assert set(TABLE.paths) - set(lines.values()) == set()


def test_words_are_stores_and_each_has_its_turn() -> None:
    assert TABLE.words == STORES.keys() | changes.OTHERS
    assert frozenset().union(*TABLE.paths.values()) == TABLE.words | {"stores"}
    turns = [TABLE.always, *TABLE.quarters]
    assert sum(map(len, turns)) == len(TABLE.words), "no word has two turns"
    assert TABLE.built <= TABLE.words


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_tested_when_its_own_file_changed(name: str) -> None:
    file = Path(inspect.getfile(STORES[name])).resolve()
    assert name in TABLE.words_of(file.relative_to(changes.ROOT).as_posix())


@pytest.mark.parametrize("name", STORES)
def test_its_server_has_the_name_that_the_table_says(name: str) -> None:
    recipe = recipe_of(STORES[name])
    assert TABLE.servers.get(name, name) == (name if recipe is None else recipe.name)


def test_every_test_of_a_server_names_it() -> None:
    folders = (changes.ROOT / "tests", changes.ROOT / "packages")
    for path in (path for folder in folders for path in folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        named = re.findall(r'mark\.(?:server|store)\("([\w-]+)"', text)
        assert set(named) <= TABLE.words, path
        if path.name not in ("test_own_environments.py", "test_changes.py"):  # names stores
            assert not re.search(r"mark\.server(?!\()", text), path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit, which is origin/main."""
    for name in ("a.py", changes.LOCK):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("faiss-cpu==1.0 \\\n    --hash=sha256:1\nredis==8.1\n")
    git("init", "-q", at=tmp_path)
    git("add", ".", at=tmp_path)
    git("commit", "-qm", "first", at=tmp_path)
    git("update-ref", "refs/remotes/origin/main", "HEAD", at=tmp_path)
    return tmp_path


def test_commits_edits_new_files_and_pins_are_changes(tree: Path) -> None:
    assert changes.changes(tree).paths == frozenset()
    (tree / "b.py").touch()
    git("add", ".", at=tree)
    git("commit", "-qm", "second", at=tree)
    (tree / "a.py").write_text("")
    (tree / "näw.py").touch()
    lock = tree / changes.LOCK
    lock.write_text(lock.read_text().replace("==1.0", "==1.1").replace("sha256:1", "sha256:2"))
    changed = {"a.py", "b.py", "näw.py", changes.LOCK, "pin/faiss-cpu"}
    assert changes.changes(tree).paths == changed
    assert changes.changes(tree, "HEAD").paths == changed - {"b.py"}


def test_what_nobody_can_tell_runs_everything(tree: Path, tmp_path: Path) -> None:
    unknown = changes.changes(tree, "0123456789")
    assert unknown == Changes("git knows no commit 0123456789 here", None)
    assert Selection(TABLE, unknown, 1).words == TABLE.words
    git("update-ref", "-d", "refs/remotes/origin/main", at=tree)
    assert changes.changes(tree).paths is None


def test_a_change_runs_its_store_those_that_always_run_and_a_quarter() -> None:
    def words(*paths: str, quarter: int | None = None) -> frozenset[str]:
        return Selection(TABLE, Changes("x", frozenset(paths)), quarter).words

    assert words() == TABLE.always == {"memory", "sqlite", "hnswlib", "pgvector"}
    assert words("python/vectrial/stores/faiss.py") == TABLE.always | {"faiss"}
    assert words("pin/redis") == TABLE.always | {"redis", "redis-search"}
    assert words("python/vectrial/stores/common/arrow.py") == TABLE.words - changes.OTHERS
    assert words("docs/results/demo/run.vectrial.tar.gz") == TABLE.always | {"committed"}
    assert words("Makefile") == TABLE.always
    assert words("engine/src/lib.rs") == words("Cargo.lock") == TABLE.always | {"engine"}
    assert words(quarter=2) == TABLE.always | TABLE.quarters[2]
    four = [words(quarter=turn) for turn in range(changes.QUARTERS)]
    assert frozenset().union(*four) == TABLE.words


def test_a_bound_test_runs_for_its_words_or_its_own_file() -> None:
    chosen = Selection(TABLE, Changes("x", frozenset({"tests/servers/test_milvus.py"})))
    assert chosen.runs("tests/gate/test_gate.py", [])
    assert chosen.runs("tests/servers/test_pgvector.py", ["pgvector"])
    assert chosen.runs("tests/servers/test_milvus.py", ["milvus"])
    assert not chosen.runs("tests/servers/test_cluster.py", ["milvus"])


def test_landings_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    file = tree / ".ci" / "landed"
    file.parent.mkdir()
    file.write_text("0123456 2\n")
    monkeypatch.setattr(changes, "LANDED", file)
    turns = []
    for _ in range(2 * changes.QUARTERS):
        changes._begin(tree)
        commit, turn = changes.landed(tree)
        assert git("rev-parse", "HEAD", at=tree)[0].startswith(commit)
        turns.append(turn)
    assert turns[0] == 3
    assert all((one + 1) % changes.QUARTERS == after for one, after in pairwise(turns))


def test_the_table_of_this_tree_is_read() -> None:
    assert isinstance(changes.selection().table, Table)
    assert changes.landed()[1] in range(changes.QUARTERS)
