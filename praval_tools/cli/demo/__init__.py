"""The command `demo`: its terminal output, its processes, its files and its HTML report."""
