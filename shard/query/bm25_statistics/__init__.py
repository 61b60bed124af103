"""Statistics that scoring needs of all shards before a search.

segment_statistics   of a segment's live documents: by word and by field
filtered_statistics  of those among them that a key may see
"""
