"""Task sets in the formats that people have: tasks.json, JSONL, Harbor folders, Hugging Face datasets."""

from openmanus_rl.tasks.archives import PackedFolder, pack_folder, unpack_archive
from openmanus_rl.tasks.base import Problem, ReadTask, TaskFiles, TaskSet
from openmanus_rl.tasks.reading import iterate_tasks, read_tasks

__all__ = [
    "PackedFolder",
    "Problem",
    "ReadTask",
    "TaskFiles",
    "TaskSet",
    "iterate_tasks",
    "pack_folder",
    "read_tasks",
    "unpack_archive",
]
