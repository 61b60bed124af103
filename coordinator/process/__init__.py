"""The processes: supervisor, coordinator, and work on a data directory at rest."""
