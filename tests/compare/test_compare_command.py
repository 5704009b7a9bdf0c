"""`vectrial compare` as it is called: what it prints, and how it ends."""

from __future__ import annotations

import functools
from pathlib import Path
from xml.etree import ElementTree as Xml

import command_calls
import pytest
from compared_runs import Made, verdicts

call = functools.partial(command_calls.call, "compare")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Made().sweep().write(tmp_path_factory.mktemp("runs") / "before")


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Made().sweep(speed=0.8).write(tmp_path_factory.mktemp("runs") / "slower")


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Made().sweep(noise=(0.99, 1.0, 1.01, 0.995, 1.005))
    return made.write(tmp_path_factory.mktemp("runs") / "same")


def test_a_slower_store_is_worse_and_fails_where_it_is_asked_to(before: Path, slower: Path) -> None:
    done = call(before, slower, "--metric", "p99", "--threshold", "5%", "--format", "jsonl")
    assert done.code == 0, done.err
    found = verdicts(done.out.splitlines())
    assert [(one["verdict"], one["at"]) for one in found] == [
        ("worse", "recall 0.9"),
        ("worse", "recall 0.95"),
        ("worse", "recall 0.99"),
    ]
    assert found[0]["change"] == pytest.approx(0.25, rel=0.02)
    assert found[0]["change_low"] < found[0]["change"] < found[0]["change_high"]
    failed = call(before, slower, "--metric", "p99", "--fail-on", "worse")
    assert failed.code == 1
    assert "3 worse" in failed.err
    better = call(slower, before, "--metric", "p99", "--fail-on", "worse")
    assert better.code == 0, better.err


def test_the_same_again_is_a_tie_and_passes(before: Path, same: Path) -> None:
    done = call(before, same, "--fail-on", "worse", "--fail-on", "not-comparable")
    assert done.code == 0, done.err
    assert "6 ties" in done.out
    assert "tie: the whole interval lies within 5 %" in done.out


def test_nothing_compared_is_nothing_passed(tmp_path: Path, before: Path) -> None:
    other = Made().sweep(params={"k": 20}).write(tmp_path / "other")
    assert call(before, other).code == 0
    done = call(before, other, "--fail-on", "worse")
    assert done.code == 1
    assert "nothing could be compared" in done.err


def test_junit_is_well_formed_and_counts_what_it_holds(before: Path, slower: Path) -> None:
    done = call(before, slower, "--format", "junit", "--recall", "0.95", "--recall", "0.999")
    root = Xml.fromstring(done.out)
    assert root.tag == "testsuites"
    cases = root.findall("testsuite/testcase")
    failures, skipped = (root.findall(f"testsuite/testcase/{t}") for t in ("failure", "skipped"))
    assert (len(cases), len(failures), len(skipped)) == (4, 2, 2)
    for node in (root, *root.findall("testsuite")):
        assert (node.get("tests"), node.get("failures"), node.get("skipped")) == ("4", "2", "2")
        assert node.get("errors") == "0"
    assert all(case.get("name") and case.get("classname") for case in cases)
    assert "not reached by both" in str(skipped[0].get("message"))


def test_markdown_shows_what_changed_before_what_did_not(before: Path, slower: Path) -> None:
    done = call(before, slower, "--format", "md", "--recall", "0.95", "--recall", "0.999")
    assert done.out.startswith("### 🔴 2 worse, 2 not comparable")
    open_part, folded = done.out.split("<details>", 1)
    assert open_part.count("🔴 worse") == 2
    assert "not comparable" in folded


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nothing to compare|there is no run here"),
        (["{before}"], "nothing to compare it with"),
        (["{before}", "{before}"], "both are the same run"),
        (["{before}:redis", "{before}:redis"], "same store of the same run"),
        (["{before}:rediss", "{slower}"], "did you mean 'redis'"),
        (["{before}", "{slower}", "--metric", "p98"], "'p98' is not a metric"),
        (["{before}", "{slower}", "--metric", "count"], "neither more nor less"),
        (["{before}", "{slower}", "--metric", "load_s"], "neither side has measured load_s"),
        (["{before}", "{slower}", "--threshold", "much"], "'much' is not a share"),
        (["{before}", "{slower}", "--threshold", "-1%"], "'-1%' is not a share"),
        (["{before}", "{slower}", "--experiment", "serch"], "did you mean 'search'"),
        (["{before}", "{slower}", "--store", "a", "--store", "b"], "one store of both runs"),
        (["{before}", "--store", "redis"], "--store is given 1 time"),
        (["{before}", "{slower}", "--recall", "1.5"], "less than or equal to 1"),
        (["{before}", "{slower}", "--fail-on", "never"], "never"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_to_do(
    arguments: list[str], said: str, before: Path, slower: Path
) -> None:
    given = [word.format(before=before, slower=slower) for word in arguments]
    done = call(*given)
    assert done.code == 2, done.out
    assert any(part in done.err for part in said.split("|")), done.err


def test_two_stores_of_a_run_may_be_named_in_either_way(tmp_path: Path) -> None:
    run = Made().sweep("redis").sweep("milvus", speed=1.3).write(tmp_path / "a:b")
    ways = (
        [f"{run}:redis", f"{run}:milvus"],
        [run, "--store", "redis", "--store", "milvus"],
        [run],
    )
    for way in ways:
        done = call(*way, "--metric", "qps", "--recall", "0.95", "--format", "jsonl")
        (found,) = verdicts(done.out.splitlines())
        assert (found["subject"], found["verdict"]) == ("redis → milvus", "better")


def test_a_store_that_vanished_is_not_comparable(tmp_path: Path) -> None:
    both = Made().sweep("redis").sweep("milvus").write(tmp_path / "both")
    alone = Made().sweep("redis").write(tmp_path / "alone")
    asked = (both, alone, "--metric", "p99", "--recall", "0.95")
    done = call(*asked, "--fail-on", "worse", "--fail-on", "not-comparable", "--format", "junit")
    assert done.code == 1
    assert "milvus hnsw: only in both" in done.err
    root = Xml.fromstring(done.out)
    (case,) = root.findall("testsuite[@name='on one side alone']/testcase")
    assert "milvus" in str(case.get("name"))
    assert case.find("skipped") is not None
    assert (root.get("tests"), root.get("skipped")) == ("2", "1")
    assert call(*asked, "--fail-on", "worse").code == 0, "it was not asked to"


def test_a_recall_is_never_shown_as_1_that_is_not(tmp_path: Path) -> None:
    run = Made().sweep("redis", recalls={40: 0.9997}).sweep("milvus", recalls={40: 0.9951})
    folder = run.write(tmp_path / "run")
    for format_ in ("table", "md", "junit"):
        told = call(folder, "--metric", "recall", "--format", format_).out
        assert "0.9997" in told
        assert "0.9951" in told
        assert "1.000" not in told


def test_names_of_runs_are_text_in_markdown(tmp_path: Path) -> None:
    folders = [Made().sweep().write(tmp_path / name) for name in ("my_suite", "a`b&c")]
    told = call(*folders, "--format", "md").out.splitlines()[2]
    assert told == "a\\`b\\&c (B) against my\\_suite (A)."
