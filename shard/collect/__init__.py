"""From matching documents to what a response shows: hits, and counts.

Each collector takes the matches of every segment of a snapshot (`shard.query.matches`) and returns
one result.

    top_hits/          the best hits, in any order
    grouping/          the best hits of every value of a field, and their sizes and counts
    facets/            counts by value, by interval, by cell, by node; statistics of numbers
    nested/            counts and orders by the elements of an array, and which of them passed
"""
