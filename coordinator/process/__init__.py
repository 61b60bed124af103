"""The processes: supervisor, coordinator, and work on a data directory at rest.

supervisor           starts, watches, restarts and stops all others; what it will not start
                     with: refused_starts
child_process        one of them, made by fork_server_client (they import
                     aiohttp_without_system_files)
startup_listener     answers until the coordinator listens; port_conflict: who else has the port
inherited_coordinator_slots  what several coordinators inherit
kernel_preparation   compiled kernels for all

coordinator_process  the process that owns the data; its components: service_factory
reader_coordinator   another one, which only searches; process_setup: what both begin with
joining/             before a host of several starts: checks the log, fills the directory
offline_commands     offline: check, rebuild, restore, reshard
"""
