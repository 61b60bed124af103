"""Evaluate a query over one segment: its text (text_search) and its filters (filters).

The entry points of the text part, in `statistics`, `text_search`, `explanation` and `expansion`
(`shard.read.highlight` marks words in stored documents). `view` is a `SegmentView` (`.segment`,
`.deleted`); `languages` a `common.analysis.languages.Languages`, built once per configuration;
`prepared` a `shard.query.prepared.PreparedQuery`, built once per search:

    doc_freqs(view, word, languages) -> NDArray[int64] (NUM_MATCH_KINDS,)
        live documents per match kind, for StatisticsResponse.doc_freqs; cached per segment
    field_statistics(view) -> dict[int, tuple[int, int]]
        field number -> (documents with a word in the field, sum of quantized lengths), live only
    match_text(view, prepared, allowed, num_ranked) -> TextMatch
        `allowed`: uint64 bitset of live documents that pass the filters. None means every document
        of the segment, so a segment with deletions always needs its live mask here.
        `num_ranked`: how many of the best need their exact score (offset + limit). None: all of
        them (needed when the score is only a later sort key, for cursors, distinct and
        explanations).
        TextMatch.found: all matches. TextMatch.ranked: the best; docs uint32 ascending, scores
        float64. Match kind tiers and proximity are part of the score, so it alone orders hits.
    explain_score(view, prepared, doc) -> dict
        the parts that add up to the score of a matching document
    expand_word(segment, word, languages) -> Expansion
        the vocabulary terms that match a query word; cached per segment
"""
