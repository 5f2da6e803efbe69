"""What launchers tell the processes of a job: torchrun, accelerate, DeepSpeed, mpirun, srun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

__all__ = ["Launch", "read_launch"]

# Of each kind of launcher: where it says which process this is, of how many, and of how many on this machine.
_PLACES = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
)
_SLURM_PLACE = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "")
# What Open MPI names a launch by, on every machine of it.
_MPI_JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")


@dataclass(frozen=True)
class Launch:
    """This process's place in a job, and what the launcher tells all of the job's processes alike."""

    rank: int = 0
    world_size: int = 1
    rank_variable: str | None = None
    """The variable that says the rank; None: no launcher started this process."""
    name: str | None = None
    """What no other launch is ever named, where the launcher gives such a name."""
    is_on_one_machine: bool = False
    """Whether one process of this machine, the launcher, started all of the job's processes."""
    store: tuple[str, int] | None = None
    """Where torchrun keeps a key-value store for the job, which outlives the restarts of its processes."""
    restarts: int = 0


def read_launch(values: Mapping[str, str]) -> Launch:
    """Read which of a job's processes this is, and of which job."""
    places = (*_PLACES, _SLURM_PLACE) if _number(values, "SLURM_STEP_ID") is not None else _PLACES
    for rank_variable, size_variable, local_variable in places:
        rank, size = _number(values, rank_variable), _number(values, size_variable)
        # Other programs set these too: what is no place in a job is none of ours.
        if rank is None or (size is not None and rank >= size):
            continue
        size = size or 1
        if size == 1 and rank_variable != "RANK":
            # A shell inside srun or mpirun starts what it likes, one after the other: that is no job.
            continue
        is_local = _number(values, local_variable) == size
        is_torchrun = "TORCHELASTIC_RUN_ID" in values and rank_variable == "RANK"
        return Launch(
            rank=rank,
            world_size=size,
            rank_variable=rank_variable,
            name=_unique_name(values, size, is_local=is_local),
            is_on_one_machine=_is_on_one_machine(values, rank_variable, is_local),
            store=_store(values) if is_torchrun else None,
            restarts=_number(values, "TORCHELASTIC_RESTART_COUNT") or _number(values, "SLURM_RESTART_COUNT") or 0,
        )
    return Launch(world_size=_number(values, "WORLD_SIZE") or 1)


def _unique_name(values: Mapping[str, str], world_size: int, *, is_local: bool) -> str | None:
    elastic = values.get("TORCHELASTIC_RUN_ID")
    if elastic is not None:
        # torchrun makes up a UUID for a job on one machine; what a user gives (or "none") may come again.
        return f"torchrun:{elastic}" if _is_uuid(elastic) else None
    if _number(values, "SLURM_STEP_ID") is not None and values.get("SLURM_STEP_NUM_TASKS") == str(world_size):
        return ":".join(
            ("slurm", values.get("SLURM_CLUSTER_NAME", ""), values.get("SLURM_JOB_ID", ""), values["SLURM_STEP_ID"])
        )
    mpi = [values[name] for name in _MPI_JOBS if name in values]
    # Made of a process number, which comes again some day: on one machine the launcher itself is told apart better.
    return ":".join(("mpi", *mpi)) if mpi and not is_local else None


def _is_on_one_machine(values: Mapping[str, str], rank_variable: str, is_local: bool) -> bool:
    if rank_variable != "RANK" or "TORCHELASTIC_RUN_ID" in values:
        return is_local
    # DeepSpeed's launcher; anybody may have set the other variables, Ray among them, whose workers outlive a job.
    return values.get("CROSS_SIZE") == "1" and "LOCAL_SIZE" in values


def _store(values: Mapping[str, str]) -> tuple[str, int] | None:
    port = _number(values, "MASTER_PORT")
    if values.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or not port or "MASTER_ADDR" not in values:
        return None
    return values["MASTER_ADDR"], port


def _number(values: Mapping[str, str], name: str) -> int | None:
    value = values.get(name)
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
