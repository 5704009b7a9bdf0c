"""Milvus searches rows by their index some minutes after they were written, and here at once."""

import time
from typing import Any


def settle(client: Any, collection: str) -> None:
    """Have the rows stored and indexed, and load the collection anew: nothing is searched as it was
    written."""
    client.flush(collection)
    for name in client.list_indexes(collection):
        while client.describe_index(collection, name)["pending_index_rows"]:
            time.sleep(0.1)
    client.release_collection(collection)
    client.load_collection(collection)
