"""The write path: batches are validated, partitioned, grouped and acknowledged."""
