"""The words that everything else is written in: it imports nothing of Vectrial but itself."""
