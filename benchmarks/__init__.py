"""Measurements of facetd: against other engines, against the floor, over sizes, of relevance.

`README.md` lists the commands. What they share:

    corpus, queries        a made-up shop, and the queries Q1-Q16; data_shapes_corpus: the shop with
                           variants, places, trees and dates
    truth                  correct results by brute force; of rankings: ranking_measures
    processes              starts what is measured; memory, disk and processor time
    wrk, http_client       load; single requests
    floor_servers          a service and shards that have nothing to do
    results                as JSON files and Markdown tables
    peers/                 the engines, an adapter a file
    game/                  the query game
"""
