"""Private real servers for tests, benches and chaos runs; none outlives the process that asked."""
