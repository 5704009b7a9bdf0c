"""Every entry that the catalogue lists."""

from __future__ import annotations

from vectrial.datasets.catalog.anomaly import ANOMALY
from vectrial.datasets.catalog.model import Entry
from vectrial.datasets.catalog.offline import OFFLINE
from vectrial.datasets.catalog.public import PUBLIC

#: Every entry that is listed, by name. Variants and synthetic datasets have names beyond these.
ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (*OFFLINE, *ANOMALY, *PUBLIC)}

#: Names shown as examples of variants and of synthetic datasets.
EXAMPLES = (
    "glove-words-50-50k",
    "wordnet-minilm-384-10k",
    "uniform-128-100k",
    "clustered-64-50k",
    "clustered-64-50k-filtered",
)
