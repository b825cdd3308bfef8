"""The views of what happens: live calls, runs, approvals, calls in doubt, audit, statistics."""
