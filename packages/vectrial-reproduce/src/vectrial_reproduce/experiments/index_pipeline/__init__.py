"""An index built segment by segment through an object store."""
