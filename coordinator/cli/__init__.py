"""The command line of `facetd`.

commands             the table of all commands; command_groups imports each when it is called

processes            serve, demo, coordinator, shard
items                search, export; shown by search_output
loading              load, from `sources`; its options: source_options, configuration_options;
                     source_remarks: what it says before; load_progress: its bar; updating:
                     --update; proposals, load_target: the index that a load, an import or a
                     followed table makes
importing            import, from `importers`
following            follow a table of PostgreSQL
indexes              status, configure, alias, delete, snapshots
keys                 API keys; analytics: frequent searches
backups              backup, restore, check, rebuild, reshard
cluster              several hosts
mcp                  tools for language models
shell                config, completion (also what Tab offers), man (manual)

options              options that set settings; service_options: those that name a service
printing             output that does not control the terminal
tables               output in columns; opensearch_export: output for other engines
"""
