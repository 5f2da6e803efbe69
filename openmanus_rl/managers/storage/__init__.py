"""Files: checkpoints, datasets, logs, evaluation results and media, in private buckets."""

from openmanus_rl.managers.storage.buckets import BUCKETS, BucketRules
from openmanus_rl.managers.storage.manager import FileInfo, ListedFile, StorageManager

__all__ = ["BUCKETS", "BucketRules", "FileInfo", "ListedFile", "StorageManager"]
