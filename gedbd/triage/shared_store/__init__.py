"""An index on a PostgreSQL server that several machines share."""
