"""Embedded relations: which relationship is meant, and what comes of it, as on hosted Supabase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from .process import Gateway, eventually

LIBRARY = """
truncate public.authors, public.books, public.reviews, public.nodes, public.shelves, public.shelved, public.covers,
  public.letters restart identity cascade;
insert into public.authors (name) values ('Ada'), ('Ben'), ('Cid');
insert into public.books (author_id, title, pages, rating) values
  (1, 'Alpha', 100, 4.5), (1, 'Beta', 400, 3), (2, 'Gamma', 350, 5), (null, 'Orphan', 20, null);
insert into public.reviews (book_id, stars) values (1, 5), (1, 3), (3, 1);
insert into public.nodes values (1, null, 'root'), (2, 1, 'left'), (3, 1, 'right'), (4, 2, 'leaf');
insert into public.shelves values (1, 'hall'), (2, 'attic');
insert into public.shelved values (1, 1), (1, 3), (2, 1);
insert into public.covers values (1, 'red');
insert into public.letters values (1, 1, 2), (2, 2, 1), (3, 1, 3);
"""

Read = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def library(gateway: Gateway) -> None:
    """Authors with books, reviews, shelves and letters, and a tree."""
    with psycopg.connect(gateway.settings.database_url, autocommit=True) as sql:
        sql.execute(LIBRARY)


@pytest.fixture
def read(gateway: Gateway, http: httpx.Client) -> Read:
    """Rows of a relation, or the code of the refusal."""

    def read(relation: str, select: str, **filters: str) -> Any:
        parameters = {"select": select, **{name.replace("__", "."): value for name, value in filters.items()}}
        headers = {"apikey": gateway.settings.secret_key}
        answer = http.get(f"/rest/v1/{relation}", params=parameters, headers=headers)
        return answer.json() if answer.is_success else answer.json()["code"]

    return read


def test_a_row_that_refers_to_its_own_kind_has_children_by_the_column_and_a_parent_by_its_name(read: Read) -> None:
    left = {"id": "eq.2"}
    children = read("nodes", "name,nodes!parent_id(name)", **left)
    assert children == [{"name": "left", "nodes": [{"name": "leaf"}]}]
    assert read("nodes", "children:nodes(name)", **left) == [{"children": [{"name": "leaf"}]}]
    assert read("nodes", "parent:parent_id(name)", **left) == [{"parent": {"name": "root"}}]
    assert read("nodes", "name,children:nodes!parent_id(name,children:nodes!parent_id(name))", id="eq.1") == [
        {
            "name": "root",
            "children": [{"name": "left", "children": [{"name": "leaf"}]}, {"name": "right", "children": []}],
        }
    ]
    assert read("nodes", "name,up:parent_id(name,up:parent_id(name))", id="eq.4") == [
        {"name": "leaf", "up": {"name": "left", "up": {"name": "root"}}}
    ]


def test_spreads_inside_spreads_keep_their_columns(read: Read) -> None:
    rows = read("reviews", "stars,...books(title,...authors(author:name,id))", order="id")
    assert rows == [
        {"stars": 5, "title": "Alpha", "author": "Ada", "id": 1},
        {"stars": 3, "title": "Alpha", "author": "Ada", "id": 1},
        {"stars": 1, "title": "Gamma", "author": "Ben", "id": 2},
    ]
    embedded = read("reviews", "stars,...books(title,authors(name))", id="eq.3")
    assert embedded == [{"stars": 1, "title": "Gamma", "authors": {"name": "Ben"}}]
    starred = read("books", "title,...covers(*)", id="eq.1")
    assert starred == [{"title": "Alpha", "book_id": 1, "colour": "red"}]
    assert read("books", "title,...covers(*)", id="eq.2") == [{"title": "Beta", "book_id": None, "colour": None}]


def test_a_spread_list_is_a_list_for_each_column(read: Read) -> None:
    rows = read("authors", "name,...books(titles:title,pages)", order="id")
    assert rows == [
        {"name": "Ada", "titles": ["Alpha", "Beta"], "pages": [100, 400]},
        {"name": "Ben", "titles": ["Gamma"], "pages": [350]},
        {"name": "Cid", "titles": [], "pages": []},
    ]
    deep = read("authors", "name,...books(title,...reviews(stars))", id="eq.1")
    assert deep == [{"name": "Ada", "title": ["Alpha", "Beta"], "stars": [[5, 3], []]}]
    turned = read("authors", "...books(title)", id="eq.1", books__order="pages.desc")
    assert turned == [{"title": ["Beta", "Alpha"]}]


def test_a_junction_joins_many_to_many(read: Read) -> None:
    # A view of such a table is another way between the same two.
    assert read("books", "title,shelves(place)") == "PGRST201"
    assert read("books", "shelves!tagged(place)", id="eq.1") == [{"shelves": []}]
    shelves = read("books", "title,shelves!shelved(place)", id="in.(1,2)", order="id", shelves__order="place")
    assert shelves == [
        {"title": "Alpha", "shelves": [{"place": "attic"}, {"place": "hall"}]},
        {"title": "Beta", "shelves": []},
    ]
    assert read("shelves", "books!shelved(title)", id="eq.2") == [{"books": [{"title": "Alpha"}]}]
    assert read("shelves", "place,books!shelved!inner(title)", books__title="eq.Gamma") == [
        {"place": "hall", "books": [{"title": "Gamma"}]}
    ]


def test_a_unique_foreign_key_is_one_to_one_either_way(read: Read) -> None:
    assert read("books", "covers(colour)", id="in.(1,2)", order="id") == [
        {"covers": {"colour": "red"}},
        {"covers": None},
    ]
    assert read("covers", "books(title)") == [{"books": {"title": "Alpha"}}]


def test_two_keys_to_one_table_need_a_hint(read: Read, gateway: Gateway, http: httpx.Client) -> None:
    assert read("letters", "authors(name)") == "PGRST201"
    for hint in ("sender_id", "letters_sender_id_fkey"):
        assert read("letters", f"authors!{hint}(name)", id="eq.2") == [{"authors": {"name": "Ben"}}]
    both = read("letters", "sender:sender_id(name),receiver:letters_receiver_id_fkey(name)", id="eq.3")
    assert both == [{"sender": {"name": "Ada"}, "receiver": {"name": "Cid"}}]
    assert read("authors", "letters!receiver_id(id)", id="eq.3") == [{"letters": [{"id": 3}]}]
    headers = {"apikey": gateway.settings.secret_key}
    ambiguous = http.get("/rest/v1/letters?select=authors(name)", headers=headers)
    assert ambiguous.status_code == 300
    assert "'authors!letters_sender_id_fkey'" in ambiguous.json()["hint"]
    assert {entry["cardinality"] for entry in ambiguous.json()["details"]} == {"many-to-one"}
    assert read("authors", "shelves(place)") == "PGRST200"


def test_a_choice_is_offered_in_the_same_order_everywhere(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key}
    lead, member = "teams_lead_id_fkey", "players_team_id_fkey"
    for path, first, second in (("teams?select=players(id)", member, lead), ("players?select=teams(id)", lead, member)):
        refusal = http.get(f"/rest/v1/{path}", headers=headers).json()
        assert [way["cardinality"] for way in refusal["details"]] == ["one-to-many", "many-to-one"]
        assert [way["relationship"].split()[0] for way in refusal["details"]] == [first, second]
        assert refusal["hint"].index(first) < refusal["hint"].index(second)
    ways = http.get("/rest/v1/books?select=shelves(id)", headers=headers).json()["details"]
    # A book is pinned once, so that this joins one to many.
    assert [way["relationship"].split()[0] for way in ways] == ["shelved", "tagged"]


def test_rows_are_kept_by_whether_anything_is_embedded(read: Read) -> None:
    assert read("authors", "name,books()", books="is.null") == [{"name": "Cid"}]
    some = read("authors", "name,books(title)", books="not.is.null", books__pages="gt.300", order="id")
    assert some == [
        {"name": "Ada", "books": [{"title": "Beta"}]},
        {"name": "Ben", "books": [{"title": "Gamma"}]},
    ]
    assert read("books", "title,authors(name)", authors="is.null") == [{"title": "Orphan", "authors": None}]
    assert read("authors", "books!inner()", order="id") == [{}, {}]
    assert read("authors", "", id="eq.3") == [{"id": 3, "name": "Cid", "born": None, "tags": []}]
    either = read("authors", "name,books()", order="id", **{"or": "(name.eq.Ada,books.is.null)"})
    assert either == [{"name": "Ada"}, {"name": "Cid"}]


def test_counts_go_by_inner_embeds(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "count=exact"}
    for query, total in (
        ("select=name,books!inner(title)&books.pages=gt.300&limit=1", 2),
        ("select=name,books!inner(title,reviews!inner(stars))&books.reviews.stars=gt.4", 1),
        ("select=name,books(title)&books=is.null", 1),
        ("select=name,books(title)&books.pages=gt.300", 3),
    ):
        answer = http.get(f"/rest/v1/authors?{query}", headers=headers)
        assert answer.headers["content-range"].endswith(f"/{total}"), (query, answer.text)


def test_rows_are_ordered_by_what_is_embedded(read: Read) -> None:
    rows = read("books", "title,authors(name)", order="authors(name).desc.nullslast,title.desc")
    assert [row["title"] for row in rows] == ["Gamma", "Beta", "Alpha", "Orphan"]
    assert read("authors", "name,books(title)", order="books(title)") == "PGRST118"
    assert read("authors", "name", order="books(title)") == "PGRST108"
    assert read("authors", "name", books__title="eq.x") == "PGRST108"


def test_conditions_orders_and_limits_reach_every_level(read: Read) -> None:
    rows = read(
        "authors",
        "name,works:books(title,reviews(stars))",
        order="id",
        limit="1",
        works__order="title.desc",
        works__limit="2",
        works__reviews__stars="gte.5",
        works__or="(title.eq.Alpha,title.eq.Beta)",
    )
    assert rows == [
        {"name": "Ada", "works": [{"title": "Beta", "reviews": []}, {"title": "Alpha", "reviews": [{"stars": 5}]}]}
    ]


def test_computed_columns_and_relations_are_functions_of_the_row(read: Read) -> None:
    rows = read("authors", "shout,best_books(title)", order="id", best_books__order="title")
    assert rows[:2] == [
        {"shout": "ADA", "best_books": [{"title": "Alpha"}]},
        {"shout": "BEN", "best_books": [{"title": "Gamma"}]},
    ]
    assert read("authors", "name", shout="eq.BEN") == [{"name": "Ben"}]
    called = read("rpc/all_authors", "shout,first_book(title)", shout="neq.CID", order="shout.desc")
    assert called == [
        {"shout": "BEN", "first_book": {"title": "Gamma"}},
        {"shout": "ADA", "first_book": {"title": "Alpha"}},
    ]


def test_views_relate_as_their_tables_do(read: Read) -> None:
    assert read("long_books", "title,authors(name)", order="title") == [
        {"title": "Beta", "authors": {"name": "Ada"}},
        {"title": "Gamma", "authors": {"name": "Ben"}},
    ]
    assert read("authors", "name,long_books(title)", id="eq.1") == [{"name": "Ada", "long_books": [{"title": "Beta"}]}]
    named = read("author_names", "author,books:long_books(title)", key="eq.2")
    assert named == [{"author": "Ben", "books": [{"title": "Gamma"}]}]


def test_views_of_joins_subqueries_and_ctes_relate_as_well(read: Read) -> None:
    assert read("books_by_cte", "title,authors(name)", id="eq.2") == [{"title": "Beta", "authors": {"name": "Ada"}}]
    assert read("books_by_subquery", "authors(name)", book="eq.3") == [{"authors": {"name": "Ben"}}]
    assert read("authors", "books_by_cte(title)", id="eq.2") == [{"books_by_cte": [{"title": "Gamma"}]}]
    assert read("books", "covers_of_books(colour)", id="in.(1,2)", order="id") == [
        {"covers_of_books": {"colour": "red"}},
        {"covers_of_books": None},
    ]
    assert read("covers_of_books", "title,books(pages)") == [{"title": "Alpha", "books": {"pages": 100}}]


def test_an_alias_may_be_the_name_of_a_key_column(read: Read) -> None:
    assert read("books", "author_id:authors(name),title", id="eq.1") == [
        {"author_id": {"name": "Ada"}, "title": "Alpha"}
    ]
    assert read("books", "author_id(name)", id="eq.1", author_id="eq.1") == [{"author_id": {"name": "Ada"}}]


def test_rows_of_functions_are_chosen_by_or_and_by_how_many_there_may_be(
    read: Read, gateway: Gateway, http: httpx.Client
) -> None:
    chosen = read("rpc/all_authors", "name", order="name", **{"or": "(name.eq.Ada,and(id.gt.2,not.or(name.eq.Ben)))"})
    assert chosen == [{"name": "Ada"}, {"name": "Cid"}]
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "handling=strict, max-affected=1"}

    def call(name: str, body: dict[str, Any], query: str = "") -> Any:
        answer = http.post(f"/rest/v1/rpc/{name}{query}", json=body, headers=headers)
        return answer.json() if answer.is_success else answer.json()["code"]

    assert call("named_authors", {"prefix": ""}) == "PGRST124"
    assert [row["name"] for row in call("named_authors", {"prefix": "B"})] == ["Ben"]
    assert call("add_numbers", {"a": 1}) == "PGRST128", "a function of one value affects no rows"
    headers.pop("Prefer")
    assert call("add_numbers", {"a": 1, "b": 5, "more": 7}) == "PGRST202"
    assert call("add_numbers", {"a": 1, "b": 5, "more": 7}, "?columns=a,b") == 6
    assert call("a_record", {}) == {"id": 1, "name": "Ada"}
    assert [row["name"] for row in call("some_records", {})] == ["Ada", "Ben", "Cid"]


def test_partitions_are_reached_through_their_table(read: Read) -> None:
    assert read("parted", "*") == []
    assert read("parted_1", "*") == "PGRST205"


@pytest.fixture
def aggregates(gateway: Gateway, read: Read) -> Iterator[None]:
    """Aggregates switched on as on a hosted project; they are refused before, and again after."""

    def switch(command: str, refused: bool) -> None:
        with psycopg.connect(gateway.settings.database_url, autocommit=True) as sql:
            sql.execute(f"alter role authenticator {command}; notify pgrst, 'reload config'".encode())
        eventually(lambda: (read("books", "pages.sum()") == "PGRST123") == refused)

    assert read("books", "pages.sum()") == "PGRST123"
    assert read("authors", "name,books(id.count())") == "PGRST123"
    switch("set pgrst.db_aggregates_enabled = 'true'", refused=False)
    yield
    switch("reset pgrst.db_aggregates_enabled", refused=True)


@pytest.mark.usefixtures("aggregates")
def test_aggregates_are_grouped_by_the_other_columns(read: Read) -> None:
    rows = read("books", "author_id,count(),pages.sum(),most:pages.max()::text", order="author_id")
    assert rows[0] == {"author_id": 1, "count": 2, "sum": 500, "most": "400"}
    per_author = read("books", "...authors(name),pages.sum()", author_id="not.is.null")
    assert sorted(per_author, key=lambda row: row["name"]) == [{"name": "Ada", "sum": 500}, {"name": "Ben", "sum": 350}]
    hoisted = read("reviews", "...books(author_id,pages.max())")
    assert sorted(hoisted, key=lambda row: row["author_id"]) == [
        {"author_id": 1, "max": 100},
        {"author_id": 2, "max": 350},
    ]
    assert read("authors", "name,books(pages.sum())", id="eq.1") == [{"name": "Ada", "books": [{"sum": 500}]}]


def test_depth_and_number_of_embedded_relations_have_a_limit(read: Read) -> None:
    def nested(levels: int) -> str:
        return "name" if levels == 0 else f"name,nodes!parent_id({nested(levels - 1)})"

    assert isinstance(read("nodes", nested(8)), list)
    for select in (nested(9), ",".join(f"a{n}:parent_id(id)" for n in range(51))):
        assert isinstance(read("nodes", select), str), "refused, with a code"
    assert isinstance(read("nodes", "name", **{"and": "(" + "or(" * 5000 + "id.eq.1" + ")" * 5001}), str)
