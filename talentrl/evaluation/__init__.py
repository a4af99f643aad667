"""Evaluation of systems on held-out tasks, paired statistics, and the report."""
