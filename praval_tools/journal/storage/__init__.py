"""Stores of the journal: in memory, and SQLite with one writer thread."""
