"""Bounded memory of derived values, and the background tasks that make them.

lru_cache         values that follow from segments, bounded by bytes
query_cache       results of parts of queries, by segment
key_sizes         what a long key is charged
decompressed_item_cache  items that were read recently, decompressed
derived_values    values computed once per segment or snapshot
background_derivation  values that no search should wait for
"""
