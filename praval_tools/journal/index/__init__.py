"""An index of a journal, beside it: searches and statistics for which its store would read everything."""
