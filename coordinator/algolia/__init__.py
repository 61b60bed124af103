"""Algolia's protocol: its parameters, filters, responses and settings in terms of ours (pure)."""
