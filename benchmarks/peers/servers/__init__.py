"""Thin servers in front of libraries; each runs in an environment of its own."""
