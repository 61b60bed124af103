"""This host: its position in the log, and its own changes that are under way.

host_context     this host and its log: every part works with these
host_background_tasks  work that ends with it
log_position     its position in the log; on disk: replica_file
seq_waiters      requests that wait until it is somewhere
serving_state    whether it answers, and up to which entry searches see
log_watch        is the log up, and where does it end?
pending_changes  changes of this host that are not answered yet
"""
