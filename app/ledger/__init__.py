"""Double-entry bookkeeping: accounts, journals whose entries sum to 0, and the claims they pay."""
