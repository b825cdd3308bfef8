"""The server of the operator's page: log-in, sessions, the frame of its pages, and what guards them."""
