"""Recording and replaying the calls of a registry, and the runs in which they are replayed; needs a journal."""
