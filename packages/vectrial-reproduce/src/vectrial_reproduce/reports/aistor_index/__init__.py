"""MinIO AIStor, Milvus and cuVS: index creation."""
