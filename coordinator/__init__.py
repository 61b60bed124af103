"""The coordinator process: HTTP in, RPC to the shards, merged responses out.

A request, in the order of its journey:

    http/           connections, routing, access, responses
    routes/         one function per page; algolia/: those of Algolia's protocol, translated
    parameters/     raw parameters → typed ones
    read/           searches; write/: changes
    catalog/        the indexes; cluster/: the shards

Beside it:

    analytics/      what people search for and click
    snapshots/      copies of all indexes on disk
    replication/    several hosts that share a log
    process/        starts, watches and stops the processes; settings: how they are set up
    cli/            the command line, by command_line_client; where services are: addresses
    dashboard/, instantsearch/, demo/   what browsers load; a catalogue to try it with
"""
