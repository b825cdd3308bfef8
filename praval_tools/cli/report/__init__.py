"""Reports: HTML files without scripts, links or network access."""
