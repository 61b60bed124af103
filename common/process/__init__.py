"""What every process of the service needs of its operating system."""
