"""Echoic memory: a small compressed state of the last speech segments, injected into a frozen language model."""
