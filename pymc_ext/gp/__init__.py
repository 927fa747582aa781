"""Gaussian processes with any factorising likelihood: ``px.gp``."""
