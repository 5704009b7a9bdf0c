"""No text of a run is a path: whatever a run says, its pages stay in the folder of the site."""

from __future__ import annotations

from pathlib import Path

import pytest
from forged_runs import forged

from vectrial_web.site.build import SiteOptions, build


@pytest.mark.slow
@pytest.mark.parametrize("up", ["absolute", "../" * 6])
def test_a_forged_run_changes_nothing_outside_its_site(tmp_path: Path, up: str) -> None:
    with forged(tmp_path, up) as (run, out):
        options = SiteOptions(figures=1)
        (result,) = build([run.parent], out, options, lambda done, of, what: None)
        assert not result.why, "the run is shown all the same"
