"""The questions that Vectrial answers by measuring: how much load a store sustains, how small a
machine holds it, which settings are fastest, and which store is."""
