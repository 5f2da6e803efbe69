"""Integrations with training libraries: one module and one extra for each library."""
