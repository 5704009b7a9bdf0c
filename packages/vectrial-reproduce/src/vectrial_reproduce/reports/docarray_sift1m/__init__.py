"""DocArray's benchmark on SIFT1M."""
