"""Which documents of one segment a query matches, and what they score.

Start at `text_search` for text and at `filters` for filters. In the order of a query:

    prepared           what a text query is before any segment is looked at
    expansion          a word → the terms of the vocabulary that match it
    stem_classes       those of its stem
    strategy           can the best hits be found without scoring all? by sizes: text_cost
    evaluation         a clause → its documents and scores
    clause_matching    all clauses, or some of them, together
    text_search        puts the results together: tiers, proximity, the best hits

    bm25f              the score of a word in a document; words of many terms
    list_scan          reads one posting list
    term_lists         intersects the lists of several terms
    phrase             adjacent words; of frequent ones: frequent_pairs
    phrase_seeds       the positions of a phrase's rarest word
    phrase_followers   which of them the other words follow
    position_blocks    reads positions where most blocks are wanted
    proximity          words that are close together score more
    proximity_ranking  the best with it, measuring few documents
    occurrences        where the words of a query stand in documents
    prefix_descent     which terms of a half-typed word documents have
    whole_fields       fields that are nothing but the query

    bounds             what a document can score at most, by block and by group
    best_terms         prunes by these bounds: one term, or all of several
    best_of_any        the same where any of several terms is enough
    best_of_word       the same for one word of many terms
    score_selection    the k-th greatest score, and who reaches it

    filters            a filter → the bitset of its documents; on one field: field_filters
    filter_matches     filters without text; few documents are tested one by one
    disjunctive        matches without the clauses of one facet, for its own counts
    matches            what all of this hands to `shard.collect`
    pinning            hits that need not match the words
    boosting           factors on scores

    statistics         document frequencies and lengths, which BM25 needs beforehand
    visible_docs       the same within what a key may see
    spacings           words written as one or as two
    near_terms         words near a mistyped one, for corrections and suggestions
    languages          in which languages the fields are searched
    explanation        why a hit scores what it scores
"""
