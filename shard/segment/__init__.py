"""Index structures of a segment: one file per structure, from builder to arrays to reader."""
