"""Other tool systems' interfaces on this one's registry: changing the import is enough."""
