"""Bounds: JSON Schemas that limit the arguments with which a grant permits calls."""
