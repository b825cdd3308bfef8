"""Loads configurations: puts the system that files declare into force in a registry, and again when they change."""
