"""Several hosts that hold the same data, in the order of one log: NATS JetStream.

`README.md` says how. `shared_log` publishes changes and applies those of all hosts; `replica`
starts all parts and ends them. These are, from the bottom up:

    log/          JetStream's stream, and what its entries say
    host/         this host: its position in the log, whether it answers
    applying/     entries → the shards of this host
    publishing/   a change, from a request to the log
    snapshot_transfer/
                  a host takes the data of another one
    startup/      makes the log or follows it
    peers/        the other hosts: their state, whether all hold the same
    following/    every entry of the log, in order
    placement/    each host holds some of the shards

A folder imports only from those above it.
"""
