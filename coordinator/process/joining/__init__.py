"""Before a host of several starts: the log must be safe, and fit the data directory.

start_decision          may this host start? checks the log, and fits the directory to it
log_checks              may this host use the log; does its directory fit?
unresolved_log_servers  warns of servers of the log that have no address
snapshot_bootstrap      an empty host takes all data of another one
missing_shard_recovery  where each host holds some shards: takes those that it lacks
"""
