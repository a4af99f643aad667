"""Batched multi-turn rollouts under matched interventions, and the record of each."""
