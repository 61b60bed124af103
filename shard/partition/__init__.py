"""One index on this shard: its truth, its write path, its states, its merges.

partition                 all that follows, together
recovery                  opening it after whatever happened; opening_progress
stored_item_batches       stored items, read back to be indexed again
derived_files             its segments and dictionaries on disk
stored_index_entry        its number, name and configuration
structures_per_configuration  what one configuration makes of its items
snapshots_in_use          the states that searches can name
snapshot_updates          the next state, after a write or a merge
uncompacted_write_groups  the write groups in the log: final, or still named by some search
purge_queue               dead records that no segment has any more

writer                    a group of operations: durable, visible, acknowledged
write_group_planner       which documents it stores and removes; rule by rule:
                          write_operation_effects
merge_flush_and_purge_scheduler
                          background work; one step of it: merge_and_flush
merge_policy              which segments to merge; which documents this drops: droppable_documents
reindex                   another configuration over the same items
backup_and_restore        a copy of one state while writes go on
fingerprint               a number that tells whether two hosts have the same items
"""
