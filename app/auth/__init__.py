"""Who is asking, and for which packet."""
