"""Forward migrations, one SQL file each, run by Alembic. They lead to ``schema.sql``."""
