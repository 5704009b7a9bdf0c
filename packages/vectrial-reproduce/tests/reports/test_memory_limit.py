"""`--memory-limit`: servers have no more memory than those of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction_runs import kinds, run_of, trial

from vectrial.model.errors import UserError
from vectrial.model.placement import size_bytes
from vectrial.plan.model import Plan
from vectrial.run.prepare import plan_of
from vectrial_reproduce.reports import REPRODUCTIONS, folder
from vectrial_reproduce.reports.conditions import conditions_of
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.memory import check_memory, memory_in_words
from vectrial_reproduce.reports.planning import Settings, plan_parts

LONGBOW = REPRODUCTIONS["longbow"]
LIMITED = Settings(0.02, memory_limit=True)


@pytest.fixture
def plan() -> Plan:
    """Of one part, whose server is a program of this machine."""
    (suite,) = (
        part.suite
        for part in plan_parts(LONGBOW, Settings(0.02, only=("tcp",), memory_limit=True), kinds())
        if part.suite is not None
    )
    return plan_of(suite, LONGBOW.name)


@pytest.mark.parametrize("name", [name for name, r in REPRODUCTIONS.items() if r.server_memory])
def test_every_part_has_the_memory_of_the_report_if_asked_for(name: str) -> None:
    report = REPRODUCTIONS[name]
    for limited, wanted in ((True, size_bytes(report.server_memory)), (False, None)):
        plans = plan_parts(report, Settings(0.01, memory_limit=limited), kinds())
        suites = [plan.suite for plan in plans if plan.suite is not None]
        assert suites
        assert {suite.placement.limits.memory_bytes for suite in suites} == {wanted}


def test_a_report_that_does_not_say_it_is_refused() -> None:
    with pytest.raises(UserError, match="aistor-index does not say how much memory"):
        plan_parts(REPRODUCTIONS["aistor-index"], LIMITED, kinds())


def test_a_limit_above_the_memory_of_the_machine_is_refused(plan: Plan) -> None:
    with pytest.raises(UserError, match=r"has 0\.5 GiB .* 0\.9 GiB .* would not bind"):
        check_memory(plan, total_bytes=2**29)


def test_a_machine_without_control_groups_is_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no memory limit can be set here: .*control group"):
        check_memory(plan, total_bytes=2**40, root=tmp_path)


def test_without_a_limit_nothing_is_checked(tmp_path: Path) -> None:
    plans = plan_parts(LONGBOW, Settings(0.02, only=("tcp",)), kinds())
    (suite,) = (part.suite for part in plans if part.suite is not None)
    check_memory(plan_of(suite, LONGBOW.name), total_bytes=1, root=tmp_path)


def test_the_folder_keeps_it(tmp_path: Path) -> None:
    folder.begin(tmp_path, LONGBOW, LIMITED, plan_parts(LONGBOW, LIMITED, kinds()))
    assert folder.read(tmp_path).settings == LIMITED


def measured_with(store: str, server: dict[str, str] | None) -> MeasuredPart:
    phases = [("put", {}, {"rows_per_s": 9.0})]
    return run_of(trial(store, "flat", "transport", phases, 1000, server=server))


def test_the_page_says_whether_it_was_set() -> None:
    assert memory_in_words(LONGBOW, {}, limited=False) == (
        "not limited here; 1GB there (--memory-limit sets it)"
    )
    assert memory_in_words(REPRODUCTIONS["aistor-index"], {}, limited=False) == ""
    about = conditions_of(LONGBOW, {}, LIMITED)
    assert about.options.endswith("--memory-limit")
    assert about.memory == "1GB, as the report's systems had (--memory-limit)"


def test_the_page_names_the_stores_that_had_no_limit() -> None:
    parts = {
        "one": measured_with("flight", {"limits": "953 MiB: applied by control groups"}),
        "two": measured_with("redis", {"limits": "not known: it runs elsewhere"}),
        "three": measured_with("memory", None),
    }
    assert memory_in_words(LONGBOW, parts, limited=True) == (
        "1GB, as the report's systems had (--memory-limit); redis: not known: it runs"
        " elsewhere; memory runs in the measuring process, which has no limit"
    )
