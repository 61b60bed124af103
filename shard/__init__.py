"""The shard process: owns one hash partition of every index.

process/        the server, and on which thread a read runs
indexes/        all indexes: opened, closed, dropped
read/           one search over one snapshot, by query/ (which documents match, and how well)
                and collect/ (the best hits, and counts)
partition/      one index: its write path, states and merges
segment/        the index structures; storage/: the stored items in LMDB, and all files
caches/         what follows from segments, within a bound
maintenance/    work on partitions that no service uses
"""
