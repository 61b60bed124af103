"""The shard process: server, handlers, and the fork server that starts it.

fork_server   imports everything once, then forks the shards
main          flags and settings of one shard
server        owns the folder, listens, drains
handlers      method → function
readers       threads for slow reads; loop_share: which fast reads go there too
"""
