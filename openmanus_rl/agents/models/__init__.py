"""Clients of model servers: chat completions as of OpenAI and vLLM, and Gemini."""
