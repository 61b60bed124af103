"""The start of a host.

first_serving  makes the log, or follows it; without it: state_without_log
"""
