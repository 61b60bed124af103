"""The read path: scoring, facets, merging and rendering of one search over all shards.

Start at `search`, one search from parameters to result:

    text/                   query text → clauses → weights
    facets/                 the counts that each facet needs; what the response shows of them
    curated_search          the search after the curation rules of its index
    scatter                 the request to every shard
    paging                  the hits of a page, by hit_merging and pinned_hits; across pages: cursor
    stored_items            their bytes; hit_rendering adds marks and scores
    group_hits_and_bucket_statistics
                            requests that depend on the hits: hit_groups, …
    search_results          what comes out

Other requests:

    multi_search_limits     what several may cost; how many run at a time:
                            multi_search_concurrency
    federated_search        several as one list, merged by federated_merge
    facet_pages             one page of a facet's buckets
    item_selection          the items that a change or an export takes in
    more_like_this          more like an item
    did_you_mean            the query in another spelling
    suggestions             completions for a search box, derived by suggest/ where that is possible
    suggested_items         whole items for these; values of facets: suggested_values
    item_explanation        why an item is a hit, or is not
    configuration_proposal  facets for a sample
    field_checks            whether fields fit what is asked, by text/fields_reported_by_shards

Between requests:

    read_services           what all kinds of searches need, made once
    index_caches            what is kept of an index, within a budget of all; result_cache
    fair_share              how many searches of one index run at a time

The folders text, facets and suggest import nothing from this one.
"""
