"""The other hosts that share the log.

peer_states      the state of each
host_and_log_status  that of this host and of the log, for operators
data_comparison  do all hosts hold the same?
log_trimming     removes entries that hosts have
"""
