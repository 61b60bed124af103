"""LMDB truth and the files derived from it."""
