"""Where the catalogue's datasets come from: one file per kind of source."""
