"""Adapters from real models to the ports in pipeline/ports.py, one file a model family."""
