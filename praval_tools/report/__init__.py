"""Texts and charts of what happened, for the terminal, for reports and for the operator's page."""
