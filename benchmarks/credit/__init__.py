"""Simulation of credit assignment: which estimator trains a router best on the same number of rollouts."""
