"""The coordinator process: HTTP in, RPC to the shards, merged answers out."""
