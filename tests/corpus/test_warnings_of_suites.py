"""What is accepted and probably not meant is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_calls import Call
from test_suites import with_top


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("client_limits = { cpu_share = 7 }", "client_limits.cpu_share = 7 is more than the whole"),
        ("client_limits = { ceiling_share = 1.5 }", "ceiling_share = 1.5 is more than the whole"),
        ("client_limits = { lag_share = 100 }", "lag_share = 100 is more than the whole"),
        ("trial_timeout_s = 0.1", "trial_timeout_s = 0.1 may end "),
        ("placement = { server_cores = [99999] }", "server_cores names core 99999"),
        ("placement = { client_cores = [99999] }", "client_cores names core 99999"),
    ],
)
def test_a_dry_run_tells(call: Call, given: Path, line: str, told: str) -> None:
    path = given / "suite.toml"
    path.write_text(with_top(line))
    said = call("run", str(path), "--dry-run")
    assert said.code == 0
    assert told in said.err
