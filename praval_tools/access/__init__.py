"""Who may call what: records, the one resolver, events, the state and its only writer."""
