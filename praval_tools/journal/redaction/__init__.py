"""Redaction: secrets are made unreadable before anything is written."""
