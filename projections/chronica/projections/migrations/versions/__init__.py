"""One module and one SQL file a migration, in the order of their numbers."""
