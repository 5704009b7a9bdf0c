"""Settings with which servers start sooner and look for work more often, for tests of answers.

Tests of how a driver waits, and of what is measured, run servers as they are shipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vectrial.util.child_environment import PASS

#: Environment variables of the servers. Milvus: intervals in ms (in s: the last two), at which
#: its coordinators look for segments to flush, index and serve. Java: no second compiler.
SETTINGS = {
    "INDEXCOORD_SCHEDULER_INTERVAL": "100",
    "DATACOORD_SEGMENT_ASSIGNMENTEXPIRATION": "100",
    "PROXY_TIMETICKINTERVAL": "50",
    "QUERYCOORD_CHECKCHANNELINTERVAL": "100",
    "QUERYCOORD_CHECKHANDOFFINTERVAL": "200",
    "QUERYCOORD_CHECKINDEXINTERVAL": "200",
    "QUERYCOORD_CHECKSEGMENTINTERVAL": "100",
    "QUERYCOORD_DISTPULLINTERVAL": "100",
    "QUERYCOORD_LEADERVIEWUPDATEINTERVAL": "1",
    "QUERYCOORD_UPDATENEXTTARGETINTERVAL": "1",
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
}


@contextmanager
def quick_servers() -> Iterator[None]:
    """Servers that are started in this block have these settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        patch.setenv(PASS, ",".join(filter(None, [os.environ.get(PASS), *SETTINGS])))
        yield
