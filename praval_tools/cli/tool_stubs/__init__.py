"""Type stubs of the agents' toolsets, for `docs stubs`."""
