"""The operator's page: a server whose pages show who may call what, what happens, and what waits for a person."""
