"""The other hosts that share the log.

peers        the state of each
host_status  this host's and the log's, for operators
comparison   do all hosts hold the same?
trimming     removes entries that hosts have
"""
