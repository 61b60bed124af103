"""From other engines: their exports and settings as items and a configuration of ours."""
