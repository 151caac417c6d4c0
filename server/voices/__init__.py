"""Voices the speech socket can speak with, one file an engine."""
