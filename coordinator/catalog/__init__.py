"""The durable catalog: which indexes exist with which configurations, aliases and API keys.

catalog             its newest state, and its changes
catalog_state       the content as a value
catalog_difference  what has changed since another state
catalog_file        the file that it is stored in
index_names         what can be the name of an index

`coordinator.cluster.catalog_delivery` brings it to the shards.
"""
