"""Milvus, and Milvus Lite."""
