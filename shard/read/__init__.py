"""The read path of a shard: one search over one snapshot."""
