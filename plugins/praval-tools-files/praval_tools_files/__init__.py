"""Files under declared folders, as tools; `plugin` is what the host loads, `roots` opens files for other packages."""
