"""This host: how far it is, and what of its own is under way.

host_context     this host and its log: every part works with these
host_background_tasks  work that ends with it
log_position     how far it is; on disk: replica_file
seq_waiters      requests that wait until it is somewhere
serving_state    whether it answers, and how far searches see
log_watch        is the log up, and how far is it?
pending_changes  changes of this host that are not answered yet
"""
