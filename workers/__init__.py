"""What carries claims from Redis to MySQL: relay, consumers, jobs."""
