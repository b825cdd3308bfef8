"""Calls: decide, check, admit, run; one pipeline for every path."""
