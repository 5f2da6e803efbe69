"""The courier, a process beside training that delivers spools to the database."""
