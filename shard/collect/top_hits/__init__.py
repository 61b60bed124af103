"""The best hits of a search, in exact order.

top_k           of a snapshot
segment_top_k   of one segment, by selection_by_levels or by a permutation_walk
sort_levels     the criteria that order them
random_order    a number per item, for random orders
hits_and_sort_values  what was chosen, and the values by which it is sorted
"""
