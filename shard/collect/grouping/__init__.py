"""Hits by value of a field (`distinct`).

distinct_hits                the best hits of every value
group_sizes_hits_and_counts  sizes, hits and facet counts by value
pair_marks                   a facet's values and groups → those that occur together
"""
