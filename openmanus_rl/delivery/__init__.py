"""What runs beside training: delivers spools to the database."""
