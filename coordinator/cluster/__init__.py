"""The shards as the coordinator sees them, one by one and together.

all_shards         all shards together: readiness, sequence numbers, what searches may see
shard_client       one shard: its connection, kept up
fan_out            one call to every shard; what comes back of a search: shard_responses
start_progress     the progress of the start, as the shards report it; its end: readiness
read_horizons      the states that searches see, and older ones in use; cursor_leases
searched_state     the one that all calls of a request read, and its deadline
cache_budget_across_indexes  how much of what the shards said is kept, over all indexes

catalog_delivery   what each shard has of the catalog

shared_memory      memory that several coordinators share; cluster and catalog of those that only
                   read: read_only_cluster_and_catalog
shard_copies       where each host has some shards: the copy that is read; those of this host:
                   local_shard_clients
"""
