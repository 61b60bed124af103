"""JSON Schemas of bodies and responses. Bounds come from `Limits`.

body_examples            of each body
components               all of them, by the names that routes use
search_schemas           searches and what they return
item_schemas             items, and changes of them
configuration_schemas    the configuration of an index
administration_schemas   names of indexes, keys, snapshots, hosts
analytics_schemas        clicks, and what was searched for
algolia_schemas          Algolia's protocol

parameter_schemas        parameters, from the table that the parser uses
schema_parts             what several share, and functions that build schemas
"""
