"""The whole engine as a naive model: lists, dictionaries, no index.

What it says, the service must say: which items match, totals, facet counts, buckets and their
order, and the order of hits by fields and by insertion. It does not score: of a text query it says
which items match, not which comes first.

It is written from the descriptions of the interface (`docs/`) alone. It shares with the service
only the text of a facet key (`common.value_kinds_and_facet_keys.facet_key`). Words of scripts
without spaces are modelled for Han, Hiragana and Katakana. Stemming and stop words are not
modelled.

    engine          Oracle: the items, writes, and a search as the sum of the rules below
    nested_and_geo  NestedGeoOracle: the same with places and elements

    items           the values that an item has
    filters         which items pass a filter
    words           what a word is, and which words it matches: prefixes, typos
    clauses         a query text as words and phrases, synonyms
    spacings        words written together or apart
    facets          what is counted, buckets and their order, statistics
    orders          texts in a language, hits by a field
    distinct        the best hits of each value
    boosts          what multiplies a score
    curation        pinned and hidden items
    elements        arrays of objects
    geo             points, distances, areas
"""
