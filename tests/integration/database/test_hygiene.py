"""What the catalog must say of every table and function, those to come included."""

from __future__ import annotations

import pytest

from .trained import FUNCTIONS as TRAINING
from .writing import Connection

OF_ORCHESTRATORS = {"orchestrators", "job_logs", "sweeps", "environment_versions"}
# Written by functions and triggers alone, whoever calls: not even the secret key changes who did what.
OF_MEMBERSHIP = {"member_keys", "invitations", "audit_log"}
KEPT_BY_THE_DATABASE = OF_ORCHESTRATORS | {
    "status_history",
    "rollout_stats",
    "rewinds",
    "archives",
    "activity",
    "validation_overrides",
    "workers",
    "jobs",
    "sweep_trials",
}


def column(db: Connection, query: str) -> list[str]:
    return [str(next(iter(found.values()))) for found in db.execute(query)]


def test_every_table_has_row_security(db: Connection) -> None:
    tables = column(
        db, "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    )
    assert len(tables) >= 22
    without = (
        "select relname from pg_class where relnamespace = 'public'::regnamespace"
        " and relkind in ('r', 'p') and not relrowsecurity"
    )
    assert column(db, without) == []


def test_every_view_looks_with_its_callers_eyes(db: Connection) -> None:
    views = "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('v', 'm')"
    assert sorted(column(db, views)) == ["metrics", "rewards", "run_list", "run_overview"]
    assert column(db, f"{views} and not coalesce('security_invoker=true' = any (reloptions), false)") == []


def test_every_table_grants_what_is_meant_and_no_more(db: Connection) -> None:
    """Hosted projects grant a new table to nobody; what is granted here is granted on purpose."""
    granted: dict[tuple[str, str], set[str]] = {}
    rows = db.execute(
        "select table_name, grantee, privilege_type from information_schema.role_table_grants"
        " where table_schema = 'public'"
        " and grantee <> 'postgres' union select table_name, grantee, privilege_type"
        " from information_schema.column_privileges"
        " where table_schema = 'public' and grantee <> 'postgres'"
    )
    for found in rows:
        granted.setdefault((found["table_name"], found["grantee"]), set()).add(found["privilege_type"])
    everything = {"SELECT", "INSERT", "UPDATE", "DELETE"}
    for table in column(
        db, "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    ):
        if table in OF_MEMBERSHIP:
            assert granted.get((table, "service_role")) == granted.get((table, "authenticated")) == {"SELECT"}, table
            assert (table, "anon") not in granted
            continue
        assert granted.get((table, "service_role")) == everything, table
        # Other metrics than the one that somebody deletes may need an axis.
        allowed = everything - {"DELETE"} if table == "metric_axes" else everything
        assert granted.get((table, "authenticated")) == ({"SELECT"} if table in KEPT_BY_THE_DATABASE else allowed), (
            table
        )
        assert granted.get((table, "anon"), set()) == (set() if table in PRIVATE else {"SELECT"}), table
    assert not [key for key in granted if key[1] not in ("service_role", "authenticated", "anon")]
    assert granted["metrics", "anon"] == granted["run_overview", "authenticated"] == {"SELECT"}


PRIVATE = OF_ORCHESTRATORS | {"members", "environments", "tasks", "validators", "workers"}

FUNCTIONS = "from pg_proc p where p.pronamespace in ('public'::regnamespace, 'internal'::regnamespace)"


def test_every_function_has_an_empty_search_path(db: Connection) -> None:
    assert len(column(db, f"select oid::regprocedure {FUNCTIONS}")) > 50
    assert (
        column(
            db, f"select oid::regprocedure {FUNCTIONS} and not 'search_path=\"\"' = any (coalesce(proconfig, '{{}}'))"
        )
        == []
    )


def test_what_reads_staged_records_or_chunks_is_not_compiled(db: Connection) -> None:
    """Where Postgres compiles queries, as it does by default, each such call would take half a second longer."""
    uncompiled = column(db, f"select proname {FUNCTIONS} and 'jit=off' = any (coalesce(proconfig, '{{}}'))")
    assert set(uncompiled) == {
        "ingest",
        "load_batch",
        "watch_rollouts",
        "request_choices",
        "rollout_cards",
        "video_times",
        "merge_stage",
        "series_of_run",
        "turn_chat",
        "generation_prompt",
        "last_step",
        "last_value",
        "run_facets",
        "progress_of_run",
        "health_of_run",
        "tasks_of_evaluation",
        "compare_evaluations",
        "find_rollouts",
        "rollout_outline",
        "rollout_rewards",
        "rollout_turns",
        "turn_fingerprints",
        "turn_generation",
        "search_rollout",
        "group_comparison",
        "list_tasks",
        "task_history",
        "task_results",
        "queue_overview",
    }


def test_no_function_is_everybodys_to_execute(db: Connection) -> None:
    assert (
        column(db, f"select oid::regprocedure {FUNCTIONS} and has_function_privilege('public', oid, 'execute')") == []
    )


READERS = {
    "rollout_result",
    "video_times",
    "metric_series",
    "metric_names",
    "run_metrics",
    "turn_chat",
    "generation_prompt",
    "run_facets",
    "run_progress",
    "run_health",
    "compare_evaluations",
    "find_rollouts",
    "rollout_outline",
    "rollout_rewards",
    "rollout_turns",
    "turn_fingerprints",
    "turn_generation",
    "search_rollout",
    "group_comparison",
    "frame_steps",
    "run_frames",
    "find_invitation",
}
# What can be embedded where no foreign key says so.
RELATIONSHIPS = {"agent_states", "rollouts", "observations", "generations", "tool_calls", "media", "rewards"}
# Tasks are the workspace's.
OF_MEMBERS = {
    "list_tasks",
    "task_facets",
    "task_history",
    "task_results",
    "queue_overview",
    "watch_rollouts",
    "request_choices",
    "jobs_overview",
}
WRITERS = {
    "ingest",
    "load_batch",
    "change_status",
    "heartbeat",
    "resume_run",
    "interrupt",
    "override_validation",
    "keep_validators",
}
# Each asks whether its caller is a member or an admin, and no key: see integration/members.
MEMBERSHIP = {
    "list_members",
    "create_key",
    "revoke_key",
    "set_display_name",
    "prepare_sign_in_link",
    "invite_member",
    "revoke_invitation",
}
# Each asks whether its caller is an editor, and whose the rollouts and workers are: see test_queue_rights.
QUEUE = {
    "request_rollouts",
    "request_evaluation",
    "cancel_rollouts",
    "retry_rollouts",
    "delete_rollouts",
    "register_worker",
    "claim_rollouts",
    "renew_rollouts",
    "release_rollouts",
    "retire_worker",
    "stop_workers",
}


@pytest.mark.parametrize(
    ("role", "functions"),
    [
        ("anon", READERS),
        ("authenticated", READERS | OF_MEMBERS | WRITERS | QUEUE | TRAINING | MEMBERSHIP),
        (
            "service_role",
            READERS | OF_MEMBERS | WRITERS | QUEUE | TRAINING | MEMBERSHIP | {"redeem_invitation", "load_archived"},
        ),
    ],
)
def test_each_role_may_call_what_is_meant_for_it(db: Connection, role: str, functions: set[str]) -> None:
    callable_functions = column(
        db,
        f"select proname {FUNCTIONS} and pronamespace = 'public'::regnamespace"
        f" and has_function_privilege('{role}', oid, 'execute')",
    )
    assert set(callable_functions) == functions | RELATIONSHIPS


def test_the_rules_are_not_to_be_changed_by_a_caller(db: Connection) -> None:
    """What makes tables, policies or triggers is the owner's alone."""
    for role in ("anon", "authenticated", "service_role"):
        mine = column(
            db,
            f"select proname {FUNCTIONS} and pronamespace = 'internal'::regnamespace"
            f" and has_function_privilege('{role}', oid, 'execute')",
        )
        assert {
            "protect",
            "track_status",
            "pin",
            "compress",
            "define_merge",
            "record_status",
            "count_rollouts",
            "watch",
        }.isdisjoint(mine), role
        assert (
            column(db, f"select has_schema_privilege('{role}', n, 'create') from unnest(array['public', 'internal']) n")
            == ["False"] * 2
        )


def test_every_definer_function_is_known(db: Connection) -> None:
    """Each runs with its owner's rights: a new one wants a second look."""
    assert set(column(db, f"select proname {FUNCTIONS} and prosecdef")) == {
        # Of archives: called with the secret key, or by triggers that look at a run which the caller may not lock.
        "begin_archive",
        "begin_restore",
        "cancel_archive",
        "finish_archive",
        "finish_restore",
        "insert_archived",
        "load_archived",
        "refuse_archived",
        "refuse_deletion_if_archived",
        "refuse_if_archived",
        "refuse_reward_if_archived",
        "unload_archives",
        "active_trials",
        "add_job",
        "add_log",
        "add_sweep",
        "ask_run_to_stop",
        "check_own_jobs",
        "beat_orchestrator",
        "begin",
        "change_job",
        "change_sweep",
        "claim_jobs",
        "claim_sweeps",
        "drop_leases",
        "end_run_of",
        "is_leased",
        "keep_trained_environment",
        "keep_version",
        "lease",
        "lock_leased_job",
        "lock_leased_sweep",
        "make_trial",
        "prune",
        "renew_leases",
        "require_own_jobs",
        "require_own_run",
        "restart",
        "retry_locked_job",
        "save_orchestrator",
        "stop_jobs_of_deleted_run",
        "stop_locked_jobs",
        "stop_own_sweep",
        "stop_trials",
        "store_preview",
        "steps_with_frames",
        "frames_at",
        "held_by_orchestrator",
        "member_role",
        # Of members, keys, invitations and the audit log: digests and accounts are nobody's to see.
        "keep_an_admin",
        "name_of_user",
        "note",
        "note_member",
        "note_key",
        "note_sign_in",
        "remove_member_first",
        "note_failed_sign_in",
        "note_deleted",
        "note_visibility",
        "note_override",
        "add_key",
        "end_key",
        "use_key",
        "rename_member",
        "account_of",
        "email_of_member",
        "add_invitation",
        "end_invitation",
        "invitation_of",
        "has_account",
        "accept",
        "owns_run",
        "is_public_run",
        "owns_task",
        "owns_evaluation",
        "owns_checkpoint",
        "owns_group_parent",
        "owns_group",
        "owns_rollout",
        "owns_turn",
        "record_status",
        "forget_status",
        "count_rollouts",
        "measure_evaluation",
        "open_stage",
        "object_run_id",
        "rewind_run",
        "figures_of_evaluation",
        "measure_again",
        "mark_runs",
        "mark_activity",
        "mark_activity_of_row",
        "mark_activity_of_runs",
        "progress_of_run",
        "health_of_run",
        "series_of_run",
        "add_override",
        "measure_without_groups",
        "note_resumption",
        "forget_launches",
        "check_reference",
        "guard_turn",
        "delete_referring",
        "truncate_referring",
        "refuse_orphans",
        "lock_rollouts",
        "check_turn_reward",
        "note_launch",
        "has_launched",
        "owns_task_folder",
        # Of the queue: leases are nobody's to see, and the public functions say who their caller is.
        "guard_lease",
        "lock_leased",
        "refuse_unleased",
        "may_act",
        "set_aside",
        "put_back",
        "reclaim_expired",
        "lock_evaluations",
        "advance_evaluation",
        "advance_evaluations",
        "leave_evaluations",
        "recount_evaluations",
        "delete_ended",
        "cache_key",
        "plan_rollouts",
        "add_rollouts",
        "make_evaluation",
        "add_groups",
        "save_worker",
        "beat_worker",
        "drain_workers",
        "claim",
        "claim_of",
        "renew",
        "give_back",
        "leases_of",
        "leases_now",
        "require_rollouts",
        "stop",
        "requeue",
    }


def test_every_foreign_key_has_an_index_and_says_what_a_delete_does(db: Connection) -> None:
    keys = "from pg_constraint c where c.contype = 'f' and c.connamespace = 'public'::regnamespace"
    assert len(column(db, f"select conname {keys}")) > 30
    # Nor does one keep what it refers to from being deleted: 23503 always means that something is not there.
    assert column(db, f"select conname {keys} and confdeltype in ('a', 'r')") == []
    assert (
        column(
            db,
            f"select conname {keys} and not exists (select 1 from pg_index i where i.indrelid = c.conrelid"
            # A row without a parent need not be in the index.
            " and (i.indpred is null or pg_get_expr(i.indpred, i.indrelid) ="
            " (select format('(%I IS NOT NULL)', a.attname) from pg_attribute a"
            "  where a.attrelid = c.conrelid and a.attnum = c.conkey[1]))"
            " and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey)",
        )
        == []
    )


def test_every_status_is_checked_guarded_and_recorded(db: Connection) -> None:
    tables = column(
        db,
        "select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where a.attname = 'status' and c.relkind = 'r'"
        " and c.relnamespace = 'public'::regnamespace",
    )
    assert len(tables) == 6
    for table in tables:
        triggers = set(
            column(db, f"select tgname from pg_trigger where tgrelid = 'public.{table}'::regclass and not tgisinternal")
        )
        assert {
            "guard_status",
            "record_status",
            "record_first_status",
            "forget_status",
            "stamp_start",
            "touch_updated_at",
        } <= triggers, table
        checks = column(
            db,
            f"select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'public.{table}'::regclass"
            f" and contype = 'c'",
        )
        assert any("(status = ANY" in check for check in checks), table


def test_every_updated_at_moves_by_trigger(db: Connection) -> None:
    tables = column(
        db,
        "select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where a.attname = 'updated_at' and c.relkind = 'r'"
        " and c.relnamespace = 'public'::regnamespace",
    )
    for table in tables:
        triggers = set(column(db, f"select tgname from pg_trigger where tgrelid = 'public.{table}'::regclass"))
        assert triggers & {"touch_updated_at", "bound_metric_chunk"}, table


def test_every_policy_asks_who_is_there_once_and_not_for_every_row(db: Connection) -> None:
    for policy in db.execute("select * from pg_policies where schemaname in ('public', 'storage')"):
        for expression in filter(None, (policy["qual"], policy["with_check"])):
            for function in ("auth.uid()", "internal.is_member()", "internal.is_editor()", "internal.is_admin()"):
                assert expression.count(function) == expression.count(f"SELECT {function}"), policy["policyname"]
