"""An index that is kept equal to a table of PostgreSQL; `facetd follow` starts it.

table_follower          copies the table, stores its changes, and survives failures on both sides
followed_index          what the index has of the table; stores changes in it
postgres_table_changes  the changes, as batches of items and removals
replication_slot        which rows have changed, by the log of the server; decoded by pgoutput
followed_postgres_rows  these rows as they are now
"""
