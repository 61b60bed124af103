"""The log: JetStream's stream, and what its entries say.

log_stream        publishes to it, reads it; its state and that of its servers: jetstream_info
nats_connection   the connection to its servers; errors: log_errors
nats_elections    asks for a leader as soon as the old one is dead
log_durability    a log that could lose entries is refused
log_entries       what an entry says; one longer than a message: long_entries
"""
