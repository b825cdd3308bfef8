"""Plugins: installed distributions that bring tools; found, loaded one by one, and reported."""
