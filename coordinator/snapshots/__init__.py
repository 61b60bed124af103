"""Snapshots of a service: copies of all indexes on disk, as of one moment.

snapshot_maker     makes them while the service runs
snapshots_on_disk  their files: listed, read, verified, removed
restore_plan       which indexes a snapshot gives
"""
