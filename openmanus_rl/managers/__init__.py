"""One module an aggregate; the names of tables and buckets live only here."""
