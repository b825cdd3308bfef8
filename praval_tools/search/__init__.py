"""Finds tools by words: what an agent may call, ranked by SQLite's FTS5."""
