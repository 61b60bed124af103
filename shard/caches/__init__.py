"""Bounded memory of derived values, and the background tasks that make them."""
