"""The read path: scoring, facets, merging and rendering of one search over all shards."""
