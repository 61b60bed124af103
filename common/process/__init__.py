"""Operating-system services that every process uses.

fork_server      imports programs once, then forks their processes
python_command   how a process is started; with its parent it ends: parent_death
logs             log lines; written by log_writer; for which requests: request_id_context
unprinted_output  commands whose stdout is full or has no reader any more
control_character_escaping  untrusted text, such as names, for terminals and logs
cooperative_scheduler  long steps of an event loop take turns
thread_pool      pools of threads; thread_priority: searches before loads and merges
uncancelled_waiting  waiting for work that continues when its waiter is cancelled
glibc_malloc     its settings; freed memory goes back to the system; how much there is:
                 available_memory
mapped_pages     where a file is mapped, and how its resident pages are released
descriptor_limit_and_table  how many files may be open; room for their descriptors
fault_injection  points at which tests make a process fail
"""
