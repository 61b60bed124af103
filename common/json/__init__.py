"""Reading JSON without Python objects: item boundaries, strings, numbers."""
