"""The start of a host.

first_serving  makes the log, or follows it; without it: state_without_log
transfer       a new host takes the data of another one: the donor
"""
