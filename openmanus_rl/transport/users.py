"""Accounts: the Auth administration API, which requires the secret key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from openmanus_rl.errors import BadResponse
from openmanus_rl.transport.http import NO_BODY, HttpClient, read_object

__all__ = ["Users"]

User = dict[str, Any]

_PER_PAGE = 200


class Users:
    """Reads and creates accounts; for members of the workspace see `MemberManager`."""

    def __init__(self, *, url: str, headers: Mapping[str, str], http: HttpClient) -> None:
        self._url = url
        self._headers = headers
        self._http = http

    def get(self, user_id: str) -> User:
        """Return an account by its id; an unknown one raises `NotFoundError`."""
        return self._request("GET", f"/users/{user_id}", attempt=f"get user {user_id}")

    def list_all(self) -> Iterator[User]:
        """Yield every account, newest first."""
        page = 1
        while True:
            answer = self._request("GET", "/users", attempt="list users", params={"page": page, "per_page": _PER_PAGE})
            users = answer.get("users")
            if not isinstance(users, list):
                raise BadResponse("list users: the answer holds no users")
            yield from users
            if len(users) < _PER_PAGE:
                return
            page += 1

    def find_by_email(self, email: str) -> User | None:
        """Return the account with an email address, ignoring case, or None."""
        wanted = email.casefold()
        return next((user for user in self.list_all() if str(user.get("email", "")).casefold() == wanted), None)

    def create(self, email: str, *, password: str) -> User:
        """Create an account that may sign in at once; an address that is taken raises `InvalidInput`."""
        body = {"email": email, "password": password, "email_confirm": True}
        # Not retried: if the first attempt succeeded, the second would fail because the address is taken.
        return self._request("POST", "/users", attempt=f"create user {email}", body=body, retryable=False)

    def make_sign_in_token(self, email: str) -> str:
        """Return a token that signs an account in to the dashboard, once."""
        return self.make_sign_in(email)[1]

    def make_sign_in(self, email: str) -> tuple[str, str]:
        """Return the id of an account, which is created if needed, and a token that signs in to it once."""
        attempt = f"make a sign-in link for {email}"
        body = {"type": "magiclink", "email": email}
        made = self._request("POST", "/generate_link", attempt=attempt, body=body)
        if not isinstance(made.get("hashed_token"), str) or not isinstance(made.get("id"), str):
            raise BadResponse(f"{attempt}: the answer holds no token")
        return made["id"], made["hashed_token"]

    def _request(
        self,
        method: str,
        path: str,
        *,
        attempt: str,
        params: dict[str, Any] | None = None,
        body: Any = NO_BODY,
        retryable: bool = True,
    ) -> User:
        return self._http.request(
            method,
            f"{self._url}{path}",
            attempt=attempt,
            read=partial(read_object, attempt=attempt),
            headers=self._headers,
            params=params,
            body=body,
            retryable=retryable,
        )
