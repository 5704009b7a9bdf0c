"""A site of committed runs, and of a file that is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from site_pages import Built

from vectrial_web.site.build import SiteOptions, build

RESULTS = Path(__file__).parents[4] / "docs" / "results"
#: Searches of libraries, outages, and a cluster; small ones.
CHOSEN = (
    "demo",
    "cluster",
    "durability/pgvector-sqlite-redis",
    "durability/weaviate-power-cuts",
    "ten-million-servers",
)
BASE = "https://results.example/site"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Built:
    runs = tmp_path_factory.mktemp("runs")
    for name in CHOSEN:
        (runs / name).mkdir(parents=True)
        shutil.copy(RESULTS / name / "run.vectrial.tar.gz", runs / name)
    (runs / "torn.vectrial.tar.gz").write_bytes(b"no bundle")
    out = tmp_path_factory.mktemp("out") / "site"
    options = SiteOptions(title="Of the tests", base_url=BASE, figures=1)
    results = build([runs], out, options, lambda done, of, what: None)
    return Built(out, runs, results)
