"""Datasets of pictures, texts and pixels, made out of the packages of registries."""
