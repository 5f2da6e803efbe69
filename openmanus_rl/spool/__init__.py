"""Spools: files that hold each record from the moment its log call returns until it is delivered."""
