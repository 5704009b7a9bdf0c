"""DocArray's benchmark on a million random vectors."""
