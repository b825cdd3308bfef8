"""The registry, its agents and their toolsets."""
