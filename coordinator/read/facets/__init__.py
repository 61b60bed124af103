"""Facets, ranges and trees, from the counts of the shards to what a response shows.

facet_count_plan          the counts that a search needs
facet_cache               known between searches; the numbers of facet values: global_ordinals
summed_counts             counts of all shards, added up; of groups:
                          group_counts_by_facet_value
facet_result_assembly     one facet after the other; bucket_selection chooses and orders, those
                          with the greatest counts by greatest_counts
facet_scheduling          all of them, without keeping other requests waiting
facet_value_search        search within the values; what it reads: folded_facet_key_matching
facet_value_collation     the order of values as texts
facet_statistics          of all values of a facet; of numbers:
                          statistics_by_facet_value
unconfigured_facets       values of fields that are not facets
range_merging             intervals and histograms; of category trees: tree_merging
facet_result_types        all of these as a response shows them
joint_counts_with_bins    joint counts of everything with the bins of a numeric field
"""
