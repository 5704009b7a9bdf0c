"""Embeddings for LangChain that are looked up, in place of a model's."""

from common import Given
from langchain_core.embeddings import Embeddings


class Lookup(Embeddings):
    """Embeddings of the texts of `rows`."""

    def __init__(self, rows: Given) -> None:
        self._rows = rows

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeddings of texts of rows; of another text, by which a framework learns the number of
        components, that of the first."""
        return [self._rows.vector(one if one.startswith("row ") else "row 0") for one in texts]

    def embed_query(self, text: str) -> list[float]:
        """The embedding of the text of a query; of another text as above."""
        return self._rows.vector(text if text.startswith("query ") else "query 0")
