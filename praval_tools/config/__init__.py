"""Configuration: what the operator says in files, structured and checked as a whole."""
