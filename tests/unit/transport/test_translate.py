"""Each failure that a client library or a server can produce, and the error it becomes."""

from __future__ import annotations

import json
import ssl
from typing import Any

import httpx
import psycopg
import pytest
from postgrest.exceptions import APIError
from storage3.exceptions import StorageApiError
from supabase import SupabaseException
from supabase_auth.errors import AuthApiError, AuthRetryableError, AuthSessionMissingError
from supabase_functions.errors import FunctionsHttpError, FunctionsRelayError

from openmanus_rl import errors
from openmanus_rl.transport.translate import error_from_exception, error_from_response, translated

REQUEST = httpx.Request("POST", "http://supabase.test/rest/v1/rollouts")


def answer(
    status: int, body: Any = None, *, text: str | None = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    content = text if text is not None else json.dumps(body)
    return httpx.Response(status, content=content, headers=headers, request=REQUEST)


def database_error(code: str, message: str = "refused", details: Any = None, status: int = 400) -> httpx.Response:
    return answer(status, {"code": code, "message": message, "details": details, "hint": None})


FK_DETAIL = 'Key (training_run_id)=(x) is not present in table "training_runs".'
HTML = "<html><body>Bad gateway</body></html>"


@pytest.mark.parametrize(
    ("response", "expected", "field"),
    [
        (database_error("23505", 'violates unique constraint "a"', "Key (run_name)=(x) already exists.", 409),
         errors.ConflictError, "run_name"),
        (database_error("23503", 'insert or update on table "rollouts" violates', FK_DETAIL, 409),
         errors.NotFoundError, "training_run_id"),
        (database_error("23502", 'null value in column "name" of relation "x"'), errors.InvalidInput, "name"),
        (database_error("23514", 'violates check constraint "rollouts_status_check"'),
         errors.InvalidInput, "rollouts_status_check"),
        (database_error("22P02", "invalid input syntax for type uuid"), errors.InvalidInput, None),
        (database_error("22003", "value out of range"), errors.InvalidInput, None),
        (database_error("42501", "permission denied for table members", status=403), errors.ForbiddenError, None),
        (database_error("42501", "new row violates row-level security", status=401), errors.ForbiddenError, None),
        (database_error("42P01", "relation does not exist", status=404), errors.SchemaMismatch, None),
        (database_error("40001", "could not serialize access", status=500), errors.ServerError, None),
        (database_error("40P01", "deadlock detected", status=500), errors.ServerError, None),
        (database_error("53300", "too many connections", status=503), errors.ServerError, None),
        (database_error("57014", "canceling statement due to statement timeout", status=500),
         errors.TimeoutExceeded, None),
        (database_error("57P03", "the database system is starting up", status=503), errors.ServerError, None),
        (database_error("P0001", "raised by hand"), errors.InvalidInput, None),
        (database_error("PGRST103", "Requested range not satisfiable", status=416), errors.InvalidInput, None),
        (database_error("PGRST116", "Cannot coerce", "The result contains 0 rows", 406), errors.NotFoundError, None),
        (database_error("PGRST202", "Could not find the function", status=404), errors.SchemaMismatch, None),
        (database_error("PGRST204", "Could not find the 'colour' column of 'rollouts'"),
         errors.InvalidInput, "colour"),
        (database_error("PGRST205", "Could not find the table", status=404), errors.SchemaMismatch, None),
        (database_error("PGRST301", "JWT expired", status=401), errors.AuthError, None),
        (database_error("PGRST002", "Could not query the schema cache", status=503), errors.ServerError, None),
        (database_error("OM400", "episode_number must not be negative", '{"field": "episode_number"}'),
         errors.InvalidInput, "episode_number"),
        (database_error("OM403", "run 7f is not yours", status=403), errors.ForbiddenError, None),
        (database_error("OM404", "unknown run"), errors.NotFoundError, None),
        (database_error("OM409", "the id belongs to another run"), errors.ConflictError, None),
        (database_error("OM409", "whatever it says", '{"kind": "rollouts", "field": "status"}'),
         errors.TransitionError, "status"),
        (database_error("OM409", "rollout 7f: cannot go from success to running"), errors.ConflictError, None),
        # The API gateway before PostgREST.
        (answer(401, {"message": "Invalid API key", "hint": "Double check your key"}), errors.AuthError, None),
        (answer(403, {"message": "no"}), errors.ForbiddenError, None),
        # Storage answers 400 whatever it is, and tells in the body.
        (answer(400, {"statusCode": "404", "error": "not_found", "message": "Object not found"}),
         errors.NotFoundError, None),
        (answer(400, {"statusCode": "409", "error": "Duplicate", "message": "The resource already exists"}),
         errors.ConflictError, None),
        (answer(400, {"statusCode": "413", "error": "Payload too large", "message": "exceeded the maximum"}),
         errors.TooLargeError, None),
        (answer(400, {"statusCode": "415", "error": "invalid_mime_type", "message": "not supported"}),
         errors.UnsupportedError, None),
        (answer(400, {"statusCode": "403", "error": "Unauthorized", "message": "row-level security"}),
         errors.ForbiddenError, None),
        # Our functions.
        (answer(404, {"error": {"code": "not_found", "message": "unknown rollout", "details": None}}),
         errors.NotFoundError, None),
        (answer(400, {"error": {"code": "invalid", "message": "bad", "details": {"field": "status"}}}),
         errors.InvalidInput, "status"),
        # Nobody's shape: judged by the status.
        (answer(413, text=HTML), errors.TooLargeError, None),
        (answer(401, text=""), errors.AuthError, None),
        (answer(502, text=HTML), errors.ServerError, None),
        (answer(520, text=HTML), errors.ServerError, None),
        (answer(504, text=HTML), errors.TimeoutExceeded, None),
        (answer(500, text=""), errors.ServerError, None),
        (answer(500, [1]), errors.ServerError, None),
        # Somebody on the way to the API: it does not know whether what was given is acceptable.
        *((answer(status, text=HTML), errors.BadResponse, None) for status in (400, 404, 407, 409, 410, 421, 422, 431)),
        *((answer(status, {"message": "no"}), errors.BadResponse, None) for status in (400, 407, 418, 422, 451)),
        (answer(402, {"message": "the project is restricted: exceed_egress_quota"}), errors.ForbiddenError, None),
        (answer(301, text="", headers={"location": "https://elsewhere.test"}), errors.SettingsError, "SUPABASE_URL"),
    ],
)  # fmt: skip
def test_an_answer_becomes_the_right_error(
    response: httpx.Response, expected: type[errors.OpenManusError], field: str | None
) -> None:
    error = error_from_response(response, "insert into rollouts")

    assert type(error) is expected
    assert error.field == field
    # What our own SQL says names the object by itself.
    assert str(error).startswith("insert into rollouts: ") is not error.code.startswith("OM")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx.ConnectError("refused", request=REQUEST), errors.ConnectionFailed),
        (httpx.ReadError("reset", request=REQUEST), errors.ConnectionFailed),
        (httpx.RemoteProtocolError("disconnected", request=REQUEST), errors.ConnectionFailed),
        (httpx.ConnectTimeout("", request=REQUEST), errors.TimeoutExceeded),
        (httpx.ReadTimeout("", request=REQUEST), errors.TimeoutExceeded),
        (httpx.PoolTimeout("", request=REQUEST), errors.TimeoutExceeded),
        (httpx.DecodingError("bad gzip", request=REQUEST), errors.BadResponse),
        (httpx.InvalidURL("no"), errors.SettingsError),
        (httpx.UnsupportedProtocol("no"), errors.SettingsError),
        (httpx.StreamConsumed(), errors.ConnectionFailed),
        (httpx.HTTPStatusError("", request=REQUEST, response=answer(429, {"message": "slow"})), errors.RateLimited),
        (APIError({"code": "23505", "message": "duplicate"}), errors.ConflictError),
        (APIError({"code": "502", "message": "Bad Client", "details": HTML}), errors.ServerError),
        (StorageApiError("Object not found", "not_found", "404"), errors.NotFoundError),
        (FunctionsHttpError("no", 403), errors.ForbiddenError),
        (FunctionsRelayError("down", 503), errors.ServerError),
        (AuthApiError("Invalid login credentials", 400, "invalid_credentials"), errors.InvalidInput),
        (AuthRetryableError("down", 502), errors.ConnectionFailed),
        (AuthSessionMissingError(), errors.AuthError),
        (SupabaseException("Invalid URL"), errors.InvalidInput),
        (psycopg.OperationalError("connection refused"), errors.ConnectionFailed),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "x"'), errors.AuthError),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), errors.NotFoundError),
        (psycopg.errors.ConnectionTimeout("too slow"), errors.TimeoutExceeded),
        (psycopg.errors.UniqueViolation("duplicate"), errors.ConflictError),
        (psycopg.errors.SerializationFailure("again"), errors.ServerError),
        (psycopg.errors.AdminShutdown("bye"), errors.ConnectionFailed),
        (psycopg.ProgrammingError("no"), errors.InvalidInput),
    ],
)
def test_what_a_library_raises_becomes_the_right_error(
    raised: Exception, expected: type[errors.OpenManusError]
) -> None:
    with pytest.raises(errors.OpenManusError) as caught, translated("select from rollouts"):
        raise raised

    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised
    assert str(caught.value).startswith("select from rollouts: ")


def test_our_own_errors_pass_the_door_unchanged() -> None:
    error = errors.NotFoundError("unknown run")

    with pytest.raises(errors.NotFoundError) as caught, translated("select from rollouts"):
        raise error

    assert caught.value is error


def test_an_untrusted_certificate_is_a_setting_not_a_passing_failure() -> None:
    error = httpx.ConnectError("certificate verify failed", request=REQUEST)
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")

    found = error_from_exception(error, "select from rollouts")

    assert isinstance(found, errors.SettingsError)
    assert "SSL_CERT_FILE" in str(found)


@pytest.mark.parametrize("header", ["120", "120.0"])
def test_retry_after_in_seconds_is_read(header: str) -> None:
    error = error_from_response(answer(429, {"message": "slow"}, headers={"retry-after": header}), "x")

    assert isinstance(error, errors.RateLimited)
    assert error.retry_after_seconds == 120


def test_retry_after_as_a_date_is_read() -> None:
    response = answer(503, {"message": "slow"}, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"})

    error = error_from_response(response, "x")

    assert isinstance(error, errors.ServerError)
    assert error.retry_after_seconds == 0


@pytest.mark.parametrize("header", ["9" * 400, "31536000", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_retry_after_of_years_is_taken_for_minutes(header: str) -> None:
    error = error_from_response(answer(503, {"message": "later"}, headers={"retry-after": header}), "x")
    assert isinstance(error, errors.ServerError)
    assert error.retry_after_seconds == 600


def test_a_retry_after_that_makes_no_sense_is_ignored() -> None:
    error = error_from_response(answer(429, {"message": "slow"}, headers={"retry-after": "soon"}), "x")

    assert isinstance(error, errors.RateLimited)
    assert error.retry_after_seconds is None


def test_a_missing_table_points_to_the_migrations() -> None:
    assert "openmanus-rl migrate" in str(error_from_response(database_error("PGRST205", "no table", status=404), "x"))
