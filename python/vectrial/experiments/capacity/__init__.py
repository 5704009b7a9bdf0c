"""The greatest load that a store sustains within limits on latency, recall and errors."""
