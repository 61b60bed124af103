"""Operating-system services that every process uses."""
