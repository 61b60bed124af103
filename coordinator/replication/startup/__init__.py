"""The start of a host.

log_stream_creation  the first host makes the log
first_serving        from when on a host serves; without the log: state_without_log
"""
