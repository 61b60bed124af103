"""Modules for both processes: messages, framing, errors, limits, analysis, JSON scanning."""
