"""The database answers what the dashboard and the Python package take for granted, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from openmanus_rl.managers.batches import Refusal
from openmanus_rl.transport.batch_text import encode_batch

from .contract import claims, problems, read_contract, shown
from .python_calls import python_calls
from .trained import FUNCTIONS, Trained, new_frames, overviews
from .worlds import AT, World, fill
from .writing import Connection, Database, acting_as, change_status, ingest, new_id, new_member

GROUPS = ("group", "bare group", "loose group", "odd group", "rewound group")
RESULTS, FILTERS, VIEWS = (read_contract()[part] for part in ("results", "filters", "views"))


@pytest.fixture(scope="module")
def session(database: Database) -> Iterator[Connection]:
    with database.connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def world(session: Connection) -> World:
    return fill(session)


def call(db: Connection, function: str, **arguments: Any) -> Any:
    """Call a function as the API does, by the names of its arguments; return its answer as JSON."""
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    values = {name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
    answer = db.execute(f"select to_jsonb(public.{function}({named})) as answer", values).fetchone()
    assert answer is not None
    return answer["answer"]


def answers(db: Connection, world: World, function: str) -> list[Any]:
    """Return the answers of a function to those who ask it of much, of little, of odd numbers and of nothing."""

    def ask(*arguments: dict[str, Any]) -> list[Any]:
        return [call(db, function, **each) for each in arguments]

    runs = [world[name] for name in ("run", "bare run", "empty run", "odd run", "evaluated run")]
    rollouts = [world[name] for name in ("rollout", "bare rollout", "silent rollout", "odd rollout", "other")]
    generations = [world[name] for name in ("generation", "bare generation", "odd generation")]
    if function in FUNCTIONS:
        with db.transaction(force_rollback=True):
            return Trained(db).run_all()[function]
    match function:
        case "cancel_rollouts" | "retry_rollouts" | "delete_rollouts" | "request_rollouts" | "request_evaluation":
            return requested(db, world, function)
        case "register_worker" | "claim_rollouts" | "renew_rollouts" | "release_rollouts" | "retire_worker":
            return worked(db, world, function)
        case (
            "create_key"
            | "revoke_key"
            | "invite_member"
            | "revoke_invitation"
            | "find_invitation"
            | "redeem_invitation"
        ):
            return admitted(db)[function]
        case "list_members" | "set_display_name" | "prepare_sign_in_link":
            return admitted(db)[function]
        case "keep_validators":
            return ask({"task_ids": [uuid4()], "validator_ids": []})
        case "stop_workers":
            return ask({"worker_ids": [uuid4()]})
        case "queue_overview":
            mine = [world[name] for name in ("worker", "bare worker", "stopped worker")]
            held = [world[name] for name in ("worker", "forgotten worker")]
            with db.transaction(force_rollback=True):
                # Other tests left more in the queue than is listed.
                db.execute("delete from public.workers where not id = any (%s::uuid[])", [mine])
                db.execute("delete from internal.leases where not worker_id = any (%s::uuid[])", [held])
                full = ask({"listed": 1000})
                db.execute("delete from public.rollouts where status = 'pending'")
                return [*full, *ask({})]
        case "request_choices":
            # Among the newest, whatever other tests made.
            ingest(db, {"rollouts": [{"id": new_id(), "environment": "e", "agent": "an agent", "model": "a model"}]})
            return ask({})
        case "watch_rollouts":
            return ask({"requested_at": AT}, {"task_id": world["queued task"]}, {"task_id": new_id()})
        case "change_status":
            return [change_status(db, "rollouts", world["bare rollout"], "running")]
        case "compare_evaluations":
            both = [("after", "before"), ("bare evaluation", "evaluation")]
            pairs = [*both, *((baseline, evaluation) for evaluation, baseline in both)]
            found = [call(db, function, evaluation_id=world[a], baseline_id=world[b]) for a, b in pairs]
            with acting_as(db, role="anon"):  # Visitors may not read tasks.
                found.append(call(db, function, evaluation_id=world["after"], baseline_id=world["before"]))
            return found
        case "frame_steps" | "run_frames":
            frames = {"run": {"width": 4, "height": 3}, "bare run": {}}
            for name, size in frames.items():
                new_frames(db, world[name], [5, 2], **size)
            given = {"steps": [2, 3]} if function == "run_frames" else {}
            return ask(*({"training_run_id": run, **given} for run in runs))
        case "jobs_overview":
            with db.transaction(force_rollback=True):
                return overviews(db)
        case "find_rollouts":
            return found_rollouts(db, world)
        case "generation_prompt":
            return ask(*({"generation_id": generation} for generation in generations))
        case "group_comparison":
            return ask(*({"group_id": world[n]} for n in GROUPS))
        case "heartbeat":
            return ask({"run_id": world["run"]})
        case "ingest":
            refused = {"rollouts": [1, {"id": world["rollout"], "status": "pending"}]}
            return [
                ingest(db, refused),
                ingest(db, {"tasks": [{"id": new_id(), "description": "a task"}]}, return_rows=True),
            ]
        case "load_batch":
            without_id = {"training_run_id": new_id(), "environment": "a"}
            chunk = {"training_run_id": world["run"], "name": "a", "values": [1.0], "steps": [1, 2], "times": [AT, AT]}
            batches: list[dict[str, list[Any]]] = [
                {
                    "rollouts": [without_id, {"id": new_id(), **without_id}],
                    "metric_chunks": [{"id": new_id(), **chunk}],
                },
                {"tasks": [{"id": new_id(), "description": "a task"}]},
            ]
            texts = [encode_batch(batch) for batch in batches]
            found = [db.execute("select public.load_batch(%s) as a", [text.decode()]).fetchone() for text in texts]
            return [one["a"] for one in found if one is not None]
        case "interrupt":
            return ask({"entries": {"rollouts": [[world["bare rollout"], new_id()]]}})
        case "list_tasks":
            # Other tests made newer tasks.
            mine = [{"filters": {"environment": world["env"]}}, {"filters": {"search": world["bare task"]}}]
            return ask({}, {"page_size": 1}, {"filters": {"search": "nothing like this"}}, *mine)
        case "load_archived":
            return ask({"training_run_id": world["run"], "kind": "agent_states", "rows": "[]"})
        case "metric_names" | "metric_series" | "run_health":
            return ask(*({"training_run_id": run} for run in runs))
        case "run_progress":
            return ask(*({"training_run_id": run, "buckets": 1} for run in runs), {"training_run_id": world["run"]})
        case "override_validation":
            judged = {"rollout_id": world["overridden"], "reason": "seen"}
            return ask({**judged, "verdict": "pass"}, {**judged, "verdict": None}, {**judged, "verdict": "fail"})
        case "resume_run":
            return ask({"run_id": world["odd run"], "change_id": new_id(), "rewind_to_step": 0})
        case "rollout_outline" | "rollout_rewards" | "turn_fingerprints":
            return ask(*({"rollout_id": rollout} for rollout in rollouts))
        case "rollout_result":
            return ask(*({"rollout_id": rollout} for rollout in (world["ended"], world["bare rollout"])))
        case "video_times":
            return ask(*({"rollout_id": rollout} for rollout in (world["filmed"], world["rollout"])))
        case "rollout_turns":
            return ask(*({"rollout_id": r, "max_chars": n} for r in rollouts for n in (3, 1000)))
        case "run_facets":
            return ask({})
        case "run_metrics":
            return ask({}, *({"training_run_id": run} for run in runs))
        case "search_rollout":
            return ask(*({"rollout_id": rollout, "text": "go"} for rollout in rollouts))
        case "task_facets":
            return ask({})
        case "task_history":
            return ask(*({"task_id": world[name]} for name in ("task", "bare task", "task 0", "task 2")))
        case "task_results":
            return ask(*({"task_id": world[name]} for name in ("task", "bare task", "queued task", "task 0")))
        case "turn_chat":
            return ask(*({"agent_state_id": world[name]} for name in ("turn", "bare turn", "odd turn")))
        case "turn_generation":
            return ask(*({"generation_id": generation} for generation in generations))
    raise AssertionError(f"{function} is new: call it here, on data that shows all it can answer")


def requested(db: Connection, world: World, function: str) -> list[Any]:
    """Ask a function that changes what waits in the queue, of rollouts made for it."""
    request = {"task_id": world["queued task"], "agent": new_id()}
    ids = [UUID(made["id"]) for made in call(db, "request_rollouts", request={**request, "attempts": 2})["rollouts"]]
    match function:
        case "request_evaluation":
            return [call(db, function, request=request)]
        case "request_rollouts":
            with db.transaction():
                db.execute("select set_config('openmanus_rl.leases', 'queue', true)")
                db.execute("update public.rollouts set status = 'success' where id = any (%s)", [ids])
            return [call(db, function, request={**request, "reuse": True})]
        case "retry_rollouts":
            call(db, "cancel_rollouts", rollout_ids=ids)
        case "delete_rollouts":
            ids.append(UUID(world["rewarded"]))
    return [call(db, function, rollout_ids=ids)]


def worked(db: Connection, world: World, function: str) -> list[Any]:
    """Ask a function of workers, as a worker of its own that takes all there is to do."""
    with db.transaction(force_rollback=True):
        worker_id = call(db, "register_worker", worker={"name": "w"})["worker_id"]
        validator = {"id": new_id(), "task_id": world["task"], "external_id": new_id(), "kind": "exact"}
        ingest(db, {"validators": [validator]})  # That of the task is retired.
        call(db, "request_rollouts", request={"task_id": world["task"], "environment": world["bare queue env"]})
        claim = {"worker_id": worker_id, "wanted": 1000, "providers": ["none", "docker"]}
        # Other tests may have left more in the queue than is claimed at once.
        claimed = [call(db, "claim_rollouts", **claim)]
        while claimed[-1]["claims"]:
            claimed.append(call(db, "claim_rollouts", **claim))
        leases = [UUID(each["lease_id"]) for answer in claimed for each in answer["claims"]]
        match function:
            case "register_worker":
                return [{"worker_id": worker_id}]
            case "claim_rollouts":
                return claimed
            case "retire_worker":
                return [call(db, function, worker_id=worker_id)]
        return [call(db, function, worker_id=worker_id, lease_ids=leases)]


def found_rollouts(db: Connection, world: World) -> list[Any]:
    ways: list[dict[str, Any]] = [
        {"filters": {"training_run_id": world["run"]}},
        {"filters": {"training_run_id": world["run"], "text": "go"}},
        {"filters": {"training_run_id": world["run"], "text": "find it"}},
        {"filters": {"environment": world["bare env"]}},
        {"filters": {"environment": world["bare env"]}, "page_size": 1},
        {"filters": {"environment": world["odd env"]}},
        {"filters": {"training_run_id": world["rewound run"], "include_rewound": True}},
        {"filters": {"environment": "nothing like this"}},
    ]
    found = [call(db, "find_rollouts", **way) for way in ways]
    # To the end, so that the place of every rollout is told once: by a number, by NaN, and by no reward.
    after = None
    while True:
        filters = {"training_run_id": world["odd run"], "sort": "reward_high", "include_rewound": True}
        page = call(db, "find_rollouts", filters=filters, after=Jsonb(after), page_size=1)
        found.append(page)
        after = page["next"]
        if after is None:
            return found


def admitted(db: Connection) -> dict[str, list[Any]]:
    """Return what the functions about members answer: one is invited and joins, and another's invitation ends."""
    found: dict[str, list[Any]] = {}

    def ask(function: str, **arguments: Any) -> Any:
        answer = call(db, function, **arguments)
        found.setdefault(function, []).append(answer)
        return answer

    with db.transaction(force_rollback=True):
        admin, editor, invited = (new_member(db, role) for role in ("admin", "editor", None))
        db.execute("update auth.users set last_sign_in_at = now() where id = %s", [admin])
        with acting_as(db, user_id=admin):
            ask("revoke_key", key_id=ask("create_key", name="a key")["id"])
            token = ask("invite_member", email=f"{invited}@example.org")["token"]
            revoked = ask("invite_member", email="somebody@example.org")
            ask("find_invitation", token=token)
            ask("revoke_invitation", invitation_id=revoked["id"])
            ask("find_invitation", token=revoked["token"])
            ask("set_display_name", display_name=None)
            ask("set_display_name", display_name="Ada")
            ask("prepare_sign_in_link", member_id=editor)
            ask("list_members")
        with acting_as(db, user_id=editor):
            ask("list_members")
        with acting_as(db, role="service_role"):
            ask("redeem_invitation", token=token, user_id=invited)
    return found


# A function of one row of a table, or of a view.
RELATIONSHIP = "exists (select 1 from pg_type t where t.oid = any (proargtypes) and t.typtype = 'c')"


def functions(db: Connection) -> set[str]:
    query = (
        "select proname from pg_proc where pronamespace = 'public'::regnamespace and prokind = 'f'"
        # The functions that are relationships are read by embedding.
        f" and not {RELATIONSHIP}"
    )
    return {str(found["proname"]) for found in db.execute(query)}


def test_every_function_is_described(db: Connection) -> None:
    assert set(RESULTS) == functions(db)


@pytest.mark.parametrize("function", sorted(RESULTS))
def test_a_function_answers_what_the_contract_says_and_all_that_it_says(
    session: Connection, world: World, function: str
) -> None:
    schema = RESULTS[function]
    found = answers(session, world, function)

    assert [problem for answer in found for problem in problems(schema, answer)] == []
    unseen = set(claims(schema)) - {claim for answer in found for claim in shown(schema, answer)}
    assert sorted(unseen) == [], "no answer shows that this is possible: narrow the contract, or add the data"


ROWS_OF_VIEWS = {
    "run_list": "r.id = any (%s)",
    "rewards": (
        "r.rollout_id in (select o.id from public.rollouts o where o.training_run_id = any (%s) or o.id = any (%s))"
    ),
}


def _rollout_of_no_run(session: Connection) -> str:
    rollout_id = new_id()
    reward = {"rollout_id": rollout_id, "reward_type": "outcome", "reward": "NaN"}
    ingest(session, {"rollouts": [{"id": rollout_id, "environment": "e"}], "rewards": [reward]})
    return rollout_id


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_the_rows_of_a_view_are_what_the_contract_says_and_all_that_it_says(
    session: Connection, world: World, view: str
) -> None:
    schema = VIEWS[view]
    runs = [world[name] for name in ("run", "bare run", "empty run", "odd run", "run of nobody")]
    query = f"select to_jsonb(r) as row from public.{view} r where {ROWS_OF_VIEWS[view]}"
    found = [each["row"] for each in session.execute(query, [runs, [_rollout_of_no_run(session)]][: query.count("%s")])]

    assert len(found) >= 2
    assert [problem for row in found for problem in problems(schema, row)] == []
    assert sorted(set(claims(schema)) - {claim for row in found for claim in shown(schema, row)}) == []


EXAMPLES: dict[str, Any] = {
    "uuid": new_id(),
    "date-time": "2026-01-02T03:04:05+00:00",
    "string": "a text",
    "integer": 1,
    "number": 0.5,
    "boolean": True,
    "array": ["success"],
}


@pytest.mark.parametrize("function", sorted(FILTERS))
def test_a_function_takes_the_filters_of_the_contract_and_no_others(db: Connection, function: str) -> None:
    run = {"training_run_id": new_id()} if function == "find_rollouts" else {}
    for name, schema in FILTERS[function]["properties"].items():
        for value in schema.get("enum", [EXAMPLES[schema.get("format", schema["type"])]]):
            call(db, function, filters=run | {name: value})
    with pytest.raises(psycopg.Error) as caught:
        call(db, function, filters={"colour": "red"})
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", "colour")


def test_the_python_package_calls_functions_by_their_names_and_arguments(db: Connection) -> None:
    query = """select proname, proargnames as names, cardinality(proargnames) - pronargdefaults as needed from pg_proc
               where pronamespace = 'public'::regnamespace and prokind = 'f'"""
    known = {found["proname"]: (found["names"] or [], found["needed"]) for found in db.execute(query)}
    calls = list(python_calls())

    assert len(calls) > 10
    for made in calls:
        names, needed = known[made.function]
        assert set(names[:needed]) <= made.arguments <= set(names), made


def test_a_refusal_has_the_fields_that_the_python_package_reads() -> None:
    refused = RESULTS["ingest"]["properties"]["refused"]["items"]["properties"]
    assert {each.name for each in fields(Refusal)} == set(refused)


def test_a_field_that_changes_in_sql_is_noticed(session: Connection, world: World) -> None:
    schema, (answer, *_) = RESULTS["rollout_outline"], answers(session, world, "rollout_outline")
    renamed = {("turn_count" if name == "turns" else name): value for name, value in answer.items()}
    retyped = answer | {"turns": str(answer["turns"])}
    added = answer | {"tokens": 0}

    assert problems(schema, answer) == []
    assert all(problems(schema, changed) for changed in (renamed, retyped, added, answer | {"turns": None}))


def test_visitors_are_answered_in_the_same_shapes(session: Connection, world: World) -> None:
    new_member(session, "viewer")
    with acting_as(session, role="anon"):
        asked = {"run_facets": {}, "run_health": {"training_run_id": world["run"]}, "find_rollouts": {"filters": {}}}
        for function, arguments in asked.items():
            assert problems(RESULTS[function], call(session, function, **arguments)) == [], function
