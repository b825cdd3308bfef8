"""The demo's report: one HTML file that needs nothing else, no script, no network."""
