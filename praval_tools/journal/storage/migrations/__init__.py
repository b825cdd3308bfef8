"""The schema migrations of the journal's database, for Alembic."""
