"""Entries → the shards of this host.

entry_applying       applies them
write_groups_to_join those of an index that are applied together; as one request:
                     joined_write_groups
cross_host_outcomes  where other hosts hold some of the shards: outcomes from several hosts
recent_write_group_outcomes  what became of groups, for the host that published them
"""
