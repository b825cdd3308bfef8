"""Reads values without running code that their classes may have: of containers, texts and numbers."""
