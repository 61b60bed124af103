"""All indexes of a shard: created, opened when needed, closed when idle, written to, dropped.

indexes            all of them
catalog_follower   creates, drops and configures them until they match the catalog
index_folders      their folders; the file that names them: created_index_numbers
open_indexes       those that serve, and which to close; one of them: open_index
closed_indexes     those that are not open; what is known of one: closed_index_facts
opening_indexes    those on the way from closed to open; back: closing_indexes
reconfiguration    revisions of their configurations
write_dispatcher   groups of any index, handed to its writer; the newest of each:
                   newest_write_groups
mapped_page_budget how much of their files stays mapped
index_statistics   sizes, for statistics and metrics
"""
