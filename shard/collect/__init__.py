"""From matching documents to what a response shows: hits (top_k) and counts (facets, ranges).

Each collector takes the matches of every segment of a snapshot (`matches`) and returns one result.
"""
