"""Records the calls of a registry in its journal, and replays them in runs that are opened again."""
