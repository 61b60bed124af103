"""Several hosts that hold the same data, in the order of one log: NATS JetStream."""
