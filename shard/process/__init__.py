"""The shard process: its server and handlers.

shard_command  flags and settings of one shard
shard_process  owns the folder, listens, drains
handlers       method → function; shard_statistics: what the process reports about itself
read_scheduler  where a read runs: on the event loop, or on one of the readers' threads
slow_read_threads  where slow reads run; event_loop_share: which fast reads go there too
"""
