"""One partition of every index: its truth, its write path, its states, its merges.

partition          one index on this shard: all that follows, together
recovery           opening it after whatever happened; progress: opening
stored_batches     stored items, read back to be indexed again
derived_files      its segments and dictionaries on disk
entry              its number, name and configuration
generation         what one configuration makes of its items
history            the states that searches can name
changed_views      the next state, after a write or a merge

writer             a group of operations: durable, visible, acknowledged
write_plan         what the operations do, before anything is written
merger             merges segments and purges records in the background
merge_policy       which segments to merge
rebuild            another configuration over the same items; revisions: configuring
backup             a copy of one state while writes go on
fingerprint        a number that tells whether two hosts have the same items

indexes            all indexes of the shard: opened when needed, closed when idle
open_index         one that serves: partition, writer, thread
closed_index       what is known of one that is closed
created_indexes    the numbers of those that were ever made
index_statistics   sizes, for statistics and metrics
"""
