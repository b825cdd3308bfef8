"""Files of data as tools; `plugin` is what the host loads, `settings` what it may set."""
