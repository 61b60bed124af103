"""A change, from a request to the log.

publish_queue      one group of an index at a time; made by write_group_publishing
catalog_changes    changes of indexes, aliases and keys
entry_publishing   publishes until the log has it
"""
