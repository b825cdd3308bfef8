"""The values of the package: tools, their metadata and schemas, calls and results; no registry."""
