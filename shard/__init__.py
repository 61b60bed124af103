"""The shard process: owns one hash partition of every index."""
