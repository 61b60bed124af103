"""What both processes import: messages, framing, errors, limits, analysis, JSON scanning."""
