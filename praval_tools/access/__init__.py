"""Access control: which agent may call which tool; pure rules over an immutable state, and its only writer."""
