"""One partition of every index: its truth, its write path, its states, its merges.

partition          one index on this shard: all that follows, together
recovery           opening it after whatever happened; opening_progress
stored_batches     stored items, read back to be indexed again
derived_files      its segments and dictionaries on disk
index_entry        its number, name and configuration
generation         what one configuration makes of its items
history            the states that searches can name
changed_views      the next state, after a write or a merge
logged_groups      the write groups in the log: final, or still named by some search
purge_queue        dead records that no segment has any more

writer             a group of operations: durable, visible, acknowledged
group_planner      which documents it stores and removes; rule by rule: write_plan
merger             merges segments and purges records in the background
merge_policy       which segments to merge; which documents this drops: droppable
rebuild            another configuration over the same items; revisions: configuring
backup             a copy of one state while writes go on
fingerprint        a number that tells whether two hosts have the same items

indexes            all indexes of the shard: opened when needed, closed when idle
catalog_follower   creates, drops and configures them until they match the catalog
index_folders      their folders on disk; the file that names them: created_indexes
open_indexes       those that serve, and which to close; one of them: open_index
closed_indexes     those that are not open; what is known of one: closed_index
opening_indexes    those on the way from closed to open; back: closing_indexes
write_groups       groups of any index: applied, and asked about
page_budget        how much of their files stays mapped
index_statistics   sizes, for statistics and metrics
"""
