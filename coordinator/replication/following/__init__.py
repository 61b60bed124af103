"""Reads the log, in its order.

gapless_message_reader  every message
log_following        every entry: applied, or put in force
comparison_schedule  when hosts compare what they hold
"""
