"""Counts of matches: facets, ranges, cubes.

drill_sideways     what counts are within: all, or without a facet's own clauses
facet_counts       matches by facet value
match_value_pairs  pairs of a match and a value, for more than a count
tree_counts        matches by node of a tree
statistics_by_facet_value  min, max and sum of numbers by facet value

bucket_counts      matches by interval, cell, node or looked up value
histograms         by interval of numbers
geo_counts         by cell of a map, and by distance
calendar_buckets   dates → years, weeks, hours

facet_cube         matches by bin and value together
cube_bins          its bins: document → range of a field
cube_grid          its counts
"""
