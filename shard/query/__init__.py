"""Evaluate queries over one segment: text (text_search) and filters (filters).

The text part in five functions, of `statistics`, `text_search`, `explanation`, `expansion` (marks
in documents: `shard.read.highlight`); `view` is a `SegmentView`
(`.segment`, `.deleted`), `languages` a `common.analysis.languages.Languages` (built once per
configuration: `Languages(default, by_path)`), `prepared` a `shard.query.prepared.PreparedQuery`
(built once per search):

    doc_freqs(view, word, languages) -> NDArray[int64] (NUM_MATCH_KINDS,)
        live documents per match kind, for StatisticsResponse.doc_freqs; memoized per segment
    field_statistics(view) -> dict[int, tuple[int, int]]
        field number -> (documents with a word in the field, sum of quantized lengths), live only
    match_text(view, prepared, allowed, num_ranked) -> TextMatch
        `allowed`: uint64 bitset of live documents that pass the filters (None: every document of
        the segment; so a segment with deletions always needs its live mask here).
        `num_ranked`: how many of the best by score must have their exact score (offset + limit);
        None: every document (needed when the score is only a later sort key, for cursors,
        distinct and explanations).
        TextMatch.found: all matches; TextMatch.ranked: the best, docs uint32 ascending, scores
        float64, one order for everything (match kind tiers and proximity are folded in)
    explain_score(view, prepared, doc) -> dict
        parts that add up to the score of a document that matches
    expand_word(segment, word, languages) -> Expansion
        the vocabulary terms behind a word; memoized per segment
"""
