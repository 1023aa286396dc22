"""Compares Redis, claim rows and ledger of each packet, and repairs what can be repaired."""
