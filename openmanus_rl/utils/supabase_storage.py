"""The integration guide's import path of `StorageManager`."""

from openmanus_rl.managers.storage import StorageManager

__all__ = ["StorageManager"]
