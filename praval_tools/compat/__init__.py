"""Drop-in replacements for the interfaces of other tool systems, over a registry of this package."""
