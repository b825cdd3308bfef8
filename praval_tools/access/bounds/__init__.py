"""Bounds on the arguments of grants."""
