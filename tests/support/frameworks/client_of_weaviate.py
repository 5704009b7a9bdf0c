"""Weaviate's client, connected as its guide says."""

import weaviate
from common import Given


def connected(rows: Given) -> weaviate.WeaviateClient:
    """A client of the server that `rows` name."""
    return weaviate.connect_to_local(
        rows.host,
        port=rows.ports["http"],
        grpc_port=rows.ports["grpc"],
        auth_credentials=weaviate.auth.AuthApiKey(rows.secrets["api_key"]),
        skip_init_checks=True,
    )
