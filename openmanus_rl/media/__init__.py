"""Media of records: images, videos and files, addressed by their content."""
