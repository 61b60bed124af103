"""Collects from the elements of a nested field that pass a condition.

element_counts     how many matching documents have an element that passes and has this value
element_order      by document, the least or the greatest number of the elements that pass
matching_elements  which elements of a hit passed
passing_elements   the elements of a segment that pass

Elements that pass are a bitset over the elements of a segment, resolved as over documents
(`shard.query.filters`), and cached there.
"""
