"""The training service: trains a run as its row in the database says, or starts the program that it names."""
