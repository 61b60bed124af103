"""Work on partitions that no service uses: check, rebuild, reshard."""
