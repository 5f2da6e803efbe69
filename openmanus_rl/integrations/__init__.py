"""What records other libraries' training: one module a library, each with the extra that installs it."""
