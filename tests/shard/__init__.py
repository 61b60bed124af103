"""Tests of the shard package."""
