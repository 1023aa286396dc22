"""What processes agree on through MySQL: leases, switches, markers, progress."""
