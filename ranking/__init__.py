"""Boards: who has most, and how exact the answer is."""
