"""The demo's report: one HTML file without scripts, links or network access."""
