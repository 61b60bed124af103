"""Index structures of a segment: one file per structure, builder to arrays to reader."""
