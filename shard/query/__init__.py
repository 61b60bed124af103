"""Which documents of one segment a query matches, and what they score.

Start at `text/text_search` for text, at `filters/filter_bitsets` for filters. From the bottom up:

    matches       what all of this hands to `shard.collect`
    filters/      filters → bitsets, or few documents tested one by one
    scoring/      BM25F; boosts and pins; the k-th greatest score
    terms/        a word → the terms of the vocabulary that match it
    postings/     reads and intersects posting lists, and blocks of positions
    phrases/      adjacent words
    proximity/    words that are close together score more
    pruning/      the best k without scoring every document (block-max)
    bm25_statistics/  document frequencies and lengths, which BM25F needs beforehand
    spelling/     words near a mistyped one; words written as one or as two
    text/         a whole text query: prepared, planned, evaluated, explained

A folder imports only from those above it, `text` from most of them.
"""
