"""The HTTP edge: connections, routing, access, and the bytes of requests and responses."""
