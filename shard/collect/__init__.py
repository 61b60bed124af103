"""From matching documents to what is shown of them: hits (top_k) and counts (facets, ranges).

Each collector takes the matches of every segment of a snapshot (`matches`) and gives one result.
"""
