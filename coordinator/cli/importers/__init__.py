"""Importers: other engines' exports and settings, converted to our items and configuration."""
