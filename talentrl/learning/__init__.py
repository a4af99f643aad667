"""Credit assignment and the two training stages, on TRL's trainers."""
