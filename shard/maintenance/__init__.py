"""Programs over a partition that no service uses: check, rebuild, reshard."""
