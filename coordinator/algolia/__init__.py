"""Algolia's protocol: its parameters, filters, answers and settings, in terms of ours (pure)."""
