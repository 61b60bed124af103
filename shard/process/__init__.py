"""The shard process: its server and handlers.

main          flags and settings of one shard
server        owns the folder, listens, drains
handlers      method → function
readers       threads for slow reads; loop_share: which fast reads go there too
"""
