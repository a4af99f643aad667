"""Hybrid retrieval of skills and passages: BM25 and dense similarity, softly lifted by a talent's prior."""
