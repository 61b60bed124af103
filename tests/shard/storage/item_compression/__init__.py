"""Tests of the truth in LMDB and of the manifest."""
