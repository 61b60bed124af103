"""The shards as the coordinator sees them, and the durable catalog that they share."""
