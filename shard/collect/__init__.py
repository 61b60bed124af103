"""From matching documents to what a response shows: hits, and counts.

Each collector takes the matches of every segment of a snapshot (`shard.query.matches`) and returns
one result.

    top_k              the best hits of a snapshot
    segment_order      the best hits of one segment
    sort_levels        the criteria that order them
    random_order       a number per item, for random orders
    hits               what was chosen, and the values by which it is sorted
    distinct           the best hits of every value of a field
    groups             sizes and facet counts by such values

    counted_matches    what counts are within: all, or without a facet's own clauses
    facet_counts       matches by facet value
    facet_pairs        pairs of a match and a value, for more than a count
    facet_cube         matches by bin and value together
    cube_bins          its bins: document → range of a field
    cube_grid          its counts
    range_counts       matches by interval
    histograms         by interval of numbers
    geo_counts         by cell of a map, and by distance
    calendars          dates → years, weeks, hours
    trees              matches by node of a tree
    value_statistics   min, max and sum of numbers by facet value
    nested_elements    counts and hits within the elements of an array
"""
