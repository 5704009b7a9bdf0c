#!/usr/bin/env bash
# Expected: a collection from which 5,461 rows are added in a call, and 33,000 ids deleted, also gives
# 33,000 rows by their ids, and takes any filter that its language can express.
# Happens: `get` of 32,766 ids raises InternalError ("too many SQL variables"), 32,000 are answered;
# `delete` of the same ids works. "$and" of 1,100 conditions raises "Expression tree is too large",
# 900 are answered; the same in "$nin" works. `get_max_batch_size()` names a limit for `add` alone.
# A row without metadata has None where one with metadata has a dictionary.
# Versions: chromadb 1.5.9, numpy 2.4.6, Python 3.11. Seen 2026-11-27.
# Source: seen in conformance checks with long lists; limits of SQLite: sqlite.org/limits.html
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet chromadb==1.5.9 numpy==2.4.6
cd "$folder" && venv/bin/python - <<'PYTHON'
import chromadb
from chromadb.errors import InternalError

client = chromadb.PersistentClient("rows")
rows = client.create_collection("rows")
step, count = client.get_max_batch_size(), 33_000
ids = [str(number) for number in range(count)]
for start in range(0, count, step):
    part = ids[start : start + step]
    rows.add(ids=part, embeddings=[[float(number % 97), 1.0] for number in range(len(part))])
print("chromadb", chromadb.__version__, "| rows of an add:", step)


def outcome(call):
    try:
        return len(call()["ids"])
    except InternalError as error:
        return str(error).rpartition(") ")[2]


def by_ids(number):
    return outcome(lambda: rows.get(ids=ids[:number], include=[]))


def under(where):
    return outcome(lambda: rows.get(where=where, include=[], limit=1))


def all_of(number):
    return {"$and": [{"part": {"$ne": value}} for value in range(number)]}


seen = {
    "get 32,000": by_ids(32_000),
    "get 32,766": by_ids(32_766),
    "900 conditions": under(all_of(900)),
    "1,100 conditions": under(all_of(1_100)),
    "1,100 in $nin": under({"part": {"$nin": list(range(1_100))}}),
    "metadata": rows.get(ids=["1"], include=["metadatas"])["metadatas"],
}
rows.delete(ids=ids[:32_767])
seen["rows after delete of 32,767"] = rows.count()
for name, value in seen.items():
    print(f"{name}: {value}")
assert seen == {
    "get 32,000": 32_000,
    "get 32,766": "too many SQL variables",
    "900 conditions": 1,
    "1,100 conditions": "Expression tree is too large (maximum depth 1000)",
    "1,100 in $nin": 1,
    "metadata": [None],
    "rows after delete of 32,767": 233,
}, "it has changed"
PYTHON
