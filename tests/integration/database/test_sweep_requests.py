"""Requests for sweeps: what the database refuses, by the name of its field, and whose sweeps may be changed."""

from __future__ import annotations

from random import Random
from typing import Any

import psycopg
import pytest

from openmanus_rl.jobs.sweeps.space import read_space
from tests.support.sweep_spaces import BAD, BAD_GRIDS, CONFIG, GOOD

from .queues import call
from .writing import Connection, acting_as, new_id, new_member, new_run


def request(db: Connection, **changes: Any) -> dict[str, Any]:
    asked = {
        "name": "a sweep", "method": "random", "metric": "reward", "max_trials": 3,
        "template": {"name": "tried", "config": CONFIG}, "space": {"seed": {"values": [1, 2, 3, 4]}},
    }  # fmt: skip
    return dict(call(db, "request_sweep", sweep={**asked, **changes}))


def refusal(db: Connection, **changes: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as caught:
        request(db, **changes)
    assert (caught.value.diag.message_primary or "").startswith(f"{caught.value.diag.column_name}: ")
    return caught.value.sqlstate, caught.value.diag.column_name


@pytest.mark.parametrize("name", GOOD)
def test_a_good_space_is_accepted(db: Connection, name: str) -> None:
    # Read as the driver reads it: JSON has no floats, and 1e300 comes back as a whole number.
    assert read_space(request(db, space=GOOD[name])["space"], CONFIG).keys() == GOOD[name].keys()


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_space_is_said_by_its_field(db: Connection, name: str) -> None:
    space, field = BAD[name]

    assert refusal(db, space=space) == ("OM400", field)


@pytest.mark.parametrize("name", BAD_GRIDS)
def test_a_grid_needs_an_end(db: Connection, name: str) -> None:
    method, space, field = BAD_GRIDS[name]

    assert refusal(db, method=method, space=space) == ("OM400", field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 501}, "name"),
        ({"method": "guess"}, "method"),
        ({"method": None}, "method"),
        ({"metric": ""}, "metric"),
        ({"metric": "m" * 501}, "metric"),
        ({"direction": "up"}, "direction"),
        ({"template": {"name": "n"}}, "template"),
        ({"template": None}, "template"),
        ({"template": {"name": "n" * 491, "config": {}}}, "template.name"),
        ({"template": {"name": "n", "config": {}, "status": "completed"}}, "template.status"),
        ({"colour": "red"}, "colour"),
        ({"max_trials": 0}, "max_trials"),
        ({"max_trials": 10_001}, "max_trials"),
        ({"max_trials": None}, "max_trials"),
        ({"max_trials": 1.5}, "max_trials"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
        ({"early_stopping": []}, "early_stopping"),
        ({"early_stopping": {"after": 1}}, "early_stopping.after"),
        ({"early_stopping": {"after_steps": -1}}, "early_stopping.after_steps"),
        ({"early_stopping": {"after_steps": None}}, "early_stopping.after_steps"),
        ({"early_stopping": {"min_trials": 0}}, "early_stopping.min_trials"),
        ({"early_stopping": {"percentile": 100}}, "early_stopping.percentile"),
        ({"job_config": {"accelerator": 3}}, "job_config.accelerator"),
        ({"job_config": {"gpu": 3}}, "job_config.gpu"),
        ({"job_config": []}, "job_config"),
        ({"method": "seeds", "space": {"a": {"values": [1]}, "b": {"values": [1]}}}, "space"),
        ({"method": "seeds", "space": {"seed": {"min": 0, "max": 5, "integer": True}}}, "space"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_by_its_field(db: Connection, changes: dict[str, Any], field: str) -> None:
    assert refusal(db, **changes) == ("OM400", field)


def test_a_grid_and_seeds_have_no_more_trials_than_points(db: Connection) -> None:
    steps = {"lr": {"min": 0.1, "max": 0.5, "step": 0.1}, "n": {"min": 1, "max": 8, "step": 3, "integer": True}}

    assert request(db, method="grid", space=steps, max_trials=None)["max_trials"] == 15
    assert request(db, method="grid", space=steps, max_trials=100)["max_trials"] == 15
    assert request(db, method="grid", space=steps, max_trials=7)["max_trials"] == 7
    assert request(db, method="seeds", max_trials=None)["max_trials"] == 4
    assert request(db, method="random", max_trials=100)["max_trials"] == 100


def test_a_preview_counts_what_a_request_would_make_and_makes_nothing(db: Connection) -> None:
    space = {
        "lr": {"min": 0, "max": 1},
        "n": {"min": 1, "max": 8, "step": 3, "integer": True},
        "on": {"values": [True]},
    }
    asked = {"name": "s", "metric": "m", "template": {"name": "n", "config": {}}, "max_trials": 7}
    before = db.execute("select count(*) from public.sweeps").fetchone()
    with acting_as(db, user_id=new_member(db, "viewer")):
        found = call(db, "preview_sweep", sweep={**asked, "method": "random", "space": space})
        assert found == {"trials": 7, "points": None, "values": {"lr": None, "n": 3, "on": 1}}
        del space["lr"]
        found = call(db, "preview_sweep", sweep={**asked, "method": "grid", "space": space})
        assert found == {"trials": 3, "points": 3, "values": {"n": 3, "on": 1}}
    assert db.execute("select count(*) from public.sweeps").fetchone() == before


@pytest.mark.parametrize("name", BAD)
def test_a_preview_refuses_what_a_request_refuses(db: Connection, name: str) -> None:
    asked = {"name": "s", "method": "grid", "metric": "m", "template": {"name": "n", "config": CONFIG}}
    with pytest.raises(psycopg.Error) as caught:
        call(db, "preview_sweep", sweep={**asked, "space": BAD[name][0]})
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", BAD[name][1])


@pytest.mark.parametrize("number", ["1e-400", "-1e-400", "1e400"])
def test_a_number_that_programs_cannot_hold_is_refused(db: Connection, number: str) -> None:
    sweep = (
        '{"name": "s", "method": "random", "metric": "m", "max_trials": 1, "template": {"name": "n", "config": {}},'
        f' "space": {{"lr": {{"min": {number}, "max": 1}}}}}}'
    )
    with pytest.raises(psycopg.Error) as caught:
        db.execute("select public.request_sweep(%s::jsonb)", [sweep])
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM400", "space.lr.min")


def test_a_repeated_request_answers_the_same(db: Connection) -> None:
    first = request(db, id=(sweep_id := new_id()))

    assert request(db, id=sweep_id, name="another") == first


def test_a_sweep_is_changed_by_its_owner_and_orchestrators_of_theirs(db: Connection) -> None:
    owner, other, viewer = new_member(db, "editor"), new_member(db, "editor"), new_member(db, "viewer")
    orchestrator = {"host": "here", "backends": ["local"]}
    with acting_as(db, user_id=owner):
        sweep = request(db)
        mine = call(db, "register_orchestrator", orchestrator=orchestrator)["orchestrator_id"]
        (claim,) = call(db, "claim_sweeps", orchestrator_id=mine)["claims"]
        lease_id = claim["lease_id"]
    with acting_as(db, user_id=other):
        theirs = call(db, "register_orchestrator", orchestrator=orchestrator)["orchestrator_id"]
    db.execute("update internal.orchestrator_leases set expires_at = now() where lease_id = %s", [lease_id])
    with acting_as(db, user_id=other):
        claims = call(db, "claim_sweeps", orchestrator_id=theirs)["claims"]
    assert claim["sweep"]["id"] == sweep["id"]
    assert claims == []

    for who, function, arguments in (
        (other, "add_trial", {"lease_id": lease_id, "trial": 0, "parameters": {"seed": 1}}),
        (other, "prune_trial", {"lease_id": lease_id, "trial": 0}),
        (other, "update_sweep", {"lease_id": lease_id, "changes": {"status": "failed"}}),
        (other, "stop_sweep", {"sweep_id": sweep["id"]}),
        (other, "claim_sweeps", {"orchestrator_id": mine}),
        (viewer, "stop_sweep", {"sweep_id": sweep["id"]}),
        (viewer, "request_sweep", {"sweep": {}}),
        (viewer, "add_trial", {"lease_id": lease_id, "trial": 0, "parameters": {}}),
    ):
        with pytest.raises(psycopg.Error) as caught, acting_as(db, user_id=who):
            call(db, function, **arguments)
        assert caught.value.sqlstate in ("OM403", "OM404"), (function, caught.value)
    with acting_as(db, user_id=owner):
        assert call(db, "add_trial", lease_id=lease_id, trial=0, parameters={"seed": 1})["trial"] == 0
        assert call(db, "stop_sweep", sweep_id=sweep["id"])["status"] == "cancelled"


def test_a_trial_is_made_in_its_turn_and_again_answers_the_same(db: Connection) -> None:
    sweep = request(db, max_concurrent=2)
    orchestrator = call(db, "register_orchestrator", orchestrator={"host": "here", "backends": ["local"]})
    claims = call(db, "claim_sweeps", orchestrator_id=orchestrator["orchestrator_id"])["claims"]
    (lease_id,) = [claim["lease_id"] for claim in claims if claim["sweep"]["id"] == sweep["id"]]

    def add(trial: int) -> dict[str, Any]:
        return dict(call(db, "add_trial", lease_id=lease_id, trial=trial, parameters={"seed": trial}))

    first = add(0)
    assert add(0) == first
    for number, field in ((2, "trial"), (-1, "trial")):
        with pytest.raises(psycopg.Error) as caught:
            add(number)
        assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM409", field)
    add(1)
    with pytest.raises(psycopg.Error) as caught:
        add(2)
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("OM409", "max_concurrent")


def test_the_value_of_a_trial_is_the_last_that_the_metric_shows(db: Connection) -> None:
    """Whatever chunks it is in, in whatever order, and whatever rewinds hid of them."""
    chance = Random(1)
    for _ in range(40):
        run_id = new_run(db)
        for _ in range(chance.randrange(4)):
            steps = chance.sample(range(20), chance.randint(1, 5))
            values = [chance.choice([chance.random(), float("nan")]) for _ in steps]
            made = db.execute(
                "insert into public.metric_chunks (training_run_id, name, steps, values, times) values"
                " (%s, 'reward', %s, %s, array_fill(now() + random() * interval '1 hour', array[%s])) returning id",
                [run_id, steps, values, len(steps)],
            ).fetchone()
            assert made is not None
            hidden_after = chance.choice([None, None, chance.randrange(20)])
            db.execute("update public.metric_chunks set visible_to = %s where id = %s", [hidden_after, made["id"]])
        found = db.execute(
            "select internal.last_value(%(run)s, 'reward')::text as value, (select m.value from public.metrics m"
            " where m.training_run_id = %(run)s order by m.step desc, m.recorded_at desc limit 1)::text as last",
            {"run": run_id},
        ).fetchone()
        assert found is not None
        assert found["value"] == found["last"]
