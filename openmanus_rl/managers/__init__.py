"""The synchronous API, one module per group of tables; only these modules contain table and bucket names."""
