"""The coordinator process: HTTP in, RPC to the shards, merged responses out."""
