"""Loading: how fast rows are taken, made durable, indexed, and found."""
