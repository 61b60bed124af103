"""The command line of `facetd`.

commands             the table of all commands; command_groups imports each when it is called

process_commands     serve, demo, coordinator, shard
searching            search; its answer on a terminal: search_output
exporting            export; in the form of another engine: opensearch_export_format
loading              load, from `sources`; its options: source_options, configuration_options;
                     source_overview: what it shows before; load_option_hints: options that may
                     be meant; load_progress: its bar; bulk_updates: --update;
                     proposed_geo_point; proposed_configuration, index_name_and_removal: the
                     index that a load, an import or a followed table makes
import_from_other_engines  import, from other engines: `importers`
following_postgres   follow a table of PostgreSQL
indexes              status, configure, rename, copy, alias, delete, open; snapshots
keys                 API keys; analytics: frequent searches
backups              backup, restore; check_rebuild_reshard: offline
cluster              several hosts
mcp                  tools for language models
settings_command     the settings; completion_scripts of shells; man_page: facetd(1)

connection_options   options that name a service; settings_options: that set settings;
                     options_as_one_value: several together; argument_completion: what Tab
                     offers for arguments
escaped_output       output that does not control the terminal; in columns: console_tables;
                     keystroke_questions: yes or no
"""
