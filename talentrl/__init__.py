"""TalentRL: choose a strategy (talent), retrieve the skills that fit it, act, and learn from the outcome."""

__version__ = "0.1.0"
