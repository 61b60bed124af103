"""The write path: batches are validated, partitioned, grouped and acknowledged.

ingest                        a batch of items, or single ones; large ones as work_on_bodies
bulk_loads                    streams of any size: bulk_load_spool keeps them until all is checked;
                              load_progress
known_fields                  whether items may add fields; counted by field_limit
partitioning                  which bytes go to which shard
write_batch                   the operations of one request; their outcome: write_result
batch_queue                   batches that wait; joined into groups and sent:
                              group_commit_queue
write_ordering                the order of all changes: a log, of this host or
                              (`coordinator.replication`) of several

index_administration          changes of indexes, one after the other; each outlives its
                              request as one of detached_tasks
configuration_patch_and_diff  merge patches and differences of configurations
field_references              the fields that a configuration names
new_index_checks              what a new index needs of the catalog; whether one is still there:
                              deleted_index_checks
index_restorer                indexes from snapshots, and copies
"""
