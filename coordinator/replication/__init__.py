"""Several hosts that hold the same data, in the order of one log: NATS JetStream.

`README.md` says how. Start at `shared_log`, or at `replica`, which starts all parts and ends them.

A write, from a request to the log:

    shared_log           publish changes, apply those of all hosts
    shared_queue         one group of an index at a time; made by group_publishing
    catalog_changes      changes of indexes, aliases and keys
    own_changes          those of this host that are not answered yet
    entries              what an entry says; one longer than a message: long_entries
    publishing           publishes until the log has it
    stream               JetStream; on log_connection, with log_errors

From the log to the shards:

    stream_follower      every message, in order
    following            every entry, in order
    waiting_groups       those of an index that are applied together
    applying             applies them
    progress             how far this host is; on disk: position
    seq_waiters          requests that wait until it is somewhere
    recent_outcomes      what became of groups, for the host that published them
    serving              whether this host answers, and how far searches see

The log and the hosts:

    this_host            this host and its log: every part works with these; host_tasks
    startup              makes the log, or follows it; without it: local_state
    transfer             a new host takes the data of another one
    log_safety           a log that could lose entries is refused
    log_watch            is it up? by stream_state; a leader is gone: elections
    log_state            the same for operators; the other hosts: peers
    trimming             removes entries that hosts have
    comparison           do all hosts hold the same? when: comparison_schedule

Where each host holds some of the shards:

    placement            this host's row, gateway and connections
    placement_table      who holds what
    known_hosts          the other hosts, by the table; one of them: other_host
    gateway              serves other hosts
    placed_groups        outcomes of groups, from several hosts
    placed_snapshots     snapshots of them together
    moving               a shard from one host to another
"""
