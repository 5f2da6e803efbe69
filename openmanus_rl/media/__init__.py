"""Bytes by content: pictures, videos and files of records."""
