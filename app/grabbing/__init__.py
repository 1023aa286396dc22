"""The hot path between the route and the script."""
