"""One partition of every index: its write path, its states, its merges."""
