"""Milvus vs Weaviate, a paper."""
