"""A host takes the data of another one, as a snapshot, over the connection to the log.

recipient      the host that takes it, and the messages
donor          the host that makes it and gives it
"""
