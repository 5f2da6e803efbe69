"""Task sets in the formats that people have: tasks.json, JSONL, Harbor folders, Hugging Face datasets."""
