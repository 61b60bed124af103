"""The shard process: server, handlers, and the fork server that starts it."""
