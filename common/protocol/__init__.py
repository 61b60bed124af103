"""The RPC between coordinator and shards."""
