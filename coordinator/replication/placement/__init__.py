"""Each host holds some of the shards.

own_placement      this host's row, peer server and connections
placement_table    who holds what
known_hosts        the other hosts, by the table; one of them: other_host
peer_server        serves other hosts; both ends' certificates: tls_between_hosts
placed_snapshots   snapshots of shards that several hosts hold
shard_moving       a shard from one host to another
"""
