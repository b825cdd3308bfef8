"""A system declared in files: what the configuration says, put into force in a registry, and again when it changes."""
