"""Work on partitions that no service uses: check, rebuild, reshard.

check_and_rebuild  verifies the data, rebuilds the derived files
reshard  spreads the items over another number of shards
"""
