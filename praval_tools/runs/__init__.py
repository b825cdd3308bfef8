"""Calls and runs in the journal: written ahead, found again, given back; imported for those who have one."""
