"""Settings (the lowest layer), the embedded servers, and the command line (the highest)."""
