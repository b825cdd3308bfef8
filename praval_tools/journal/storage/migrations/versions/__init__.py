"""The schema migrations of the journal's database, one module each."""
