"""Each host holds some of the shards.

placement          this host's row, gateway and connections
placement_table    who holds what
known_hosts        the other hosts, by the table; one of them: other_host
gateway            serves other hosts
placed_snapshots   snapshots of shards that several hosts hold
moving             a shard from one host to another
"""
