"""The read path: scoring, facets, merging and rendering of one search over all shards.

Start at `search`, one search from parameters to result:

    searched_state         index, horizon and deadline, the same for all steps
    query_parser           text → clauses; words written together or apart: spacing
    text_scoring           clauses → weights, by the frequencies in text_statistics
    facet_plan             the counts that each facet needs
    scatter                the request to every shard
    paging                 the hits of a page, by merge; across pages: cursor
    stored_items           their bytes; rendering adds marks and scores
    follow_ups             second requests: groups, value_statistics, facet_cube
    results                what comes out

Facets, from counts to what is shown:

    facet_memory           what is known between searches; the values' numbers: facet_values
    merged_counts          counts of all shards, added up
    facets                 one facet after the other; buckets chooses and orders
    facet_listing          all of them, without keeping other requests waiting
    facet_keys             search within the values; text_order sorts them
    facet_summaries        statistics; of fields that are no facets: field_facets
    ranges                 intervals and histograms; of category trees: trees

Other requests:

    multi_search           several searches at a time; as one list: federated
    similar                more like an item
    spelling               another spelling of a query; the words for it: near_terms
    suggestions            completions; kept in suggestion_memory; derived by beginnings, best_items
    item_explanation       why an item is a hit, or is not
    configuration_proposal facets for a sample; field_checks: whether fields fit what is asked

Between requests:

    index_memory           what is kept of an index, within the cache_budget; result_cache
    fair_share             how many searches of one index run at a time
    analytics              frequent searches, clicks; of one day: search_counts
"""
