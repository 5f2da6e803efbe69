"""Reading through supabase-py: filters, order, pages, embedded rows, as on hosted Supabase."""

from __future__ import annotations

import httpx
import psycopg
import pytest
from postgrest.exceptions import APIError
from supabase import Client

from .process import Gateway


@pytest.fixture(scope="module", autouse=True)
def library(postgres: object, admin: Client) -> None:
    """Three authors, five books, three reviews."""
    url = postgres.url  # type: ignore[attr-defined]
    with psycopg.connect(url, autocommit=True) as sql:
        sql.execute("truncate public.authors, public.books, public.reviews restart identity cascade")
    admin.table("authors").insert(
        [
            {"name": "Ada", "tags": ["math", "code"]},
            {"name": "Ben", "tags": ["code"]},
            {"name": "Cid 100%", "tags": []},
        ]
    ).execute()
    books = [
        (1, "Alpha", 100, {"lang": "en", "parts": [{"n": 1}, {"n": 2}]}, "2026-01-01T00:00:00Z"),
        (1, "Beta", 400, {"lang": "fr"}, "2026-06-01T12:00:00.5Z"),
        (2, "Gamma, part 1", None, None, None),
        (2, "Delta", 350, {"lang": "en"}, "2026-03-01T00:00:00+02:00"),
        (None, "Orphan", 20, [1, 2], None),
    ]
    keys = ("author_id", "title", "pages", "details", "published_at")
    admin.table("books").insert([dict(zip(keys, book, strict=True)) for book in books]).execute()
    admin.table("reviews").insert(
        [{"book_id": 1, "stars": 5}, {"book_id": 1, "stars": 3}, {"book_id": 4, "stars": 1}]
    ).execute()


def ids(response: object) -> list[int]:
    return [row["id"] for row in response.data]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("column", "operator", "value", "expected"),
    [
        ("title", "eq", "Alpha", [1]),
        ("title", "neq", "Alpha", [2, 3, 4, 5]),
        ("pages", "gt", 100, [2, 4]),
        ("pages", "lte", 100, [1, 5]),
        ("published_at", "gt", "2026-02-28T21:59:59+00:00", [2, 4]),
        ("published_at", "lt", "2026-02-28T22:00:01Z", [1, 4]),
        ("title", "like", "%a", [1, 2, 4]),
        ("title", "ilike", "a%", [1]),
        ("title", "in", '("Gamma, part 1",Alpha)', [1, 3]),
        ("title", "match", "^[AB]", [1, 2]),
        ("details->>lang", "eq", "en", [1, 4]),
        ("details->parts->0->>n", "eq", "1", [1]),
        ("details", "cs", '{"lang":"fr"}', [2]),
        ("pages", "is", "null", [3]),
        ("pages", "not.is", "null", [1, 2, 4, 5]),
        ("title", "not.in", "(Alpha,Beta)", [3, 4, 5]),
        ("pages", "isdistinct", "100", [2, 3, 4, 5]),
    ],
)
def test_a_filter_finds_what_it_finds_on_hosted_projects(
    admin: Client, column: str, operator: str, value: object, expected: list[int]
) -> None:
    found = admin.table("books").select("id").filter(column, operator, value).order("id").execute()
    assert ids(found) == expected


def test_in_with_commas_and_quotes_is_taken_literally(admin: Client) -> None:
    assert ids(admin.table("books").select("id").in_("title", ["Gamma, part 1", 'no "such"']).execute()) == [3]


def test_or_and_and_combine(admin: Client) -> None:
    query = admin.table("books").select("id").or_("title.eq.Alpha,and(pages.gt.300,details->>lang.eq.en)")
    assert ids(query.order("id").execute()) == [1, 4]


def test_arrays_are_searched_by_containment_and_overlap(admin: Client) -> None:
    authors = admin.table("authors")
    assert ids(authors.select("id").contains("tags", ["code", "math"]).execute()) == [1]
    assert ids(admin.table("authors").select("id").overlaps("tags", ["code", "x"]).order("id").execute()) == [1, 2]


def test_nulls_come_where_they_are_asked_to(admin: Client) -> None:
    descending = admin.table("books").select("id").order("pages", desc=True)
    assert ids(descending.execute()) == [3, 2, 4, 1, 5], "Postgres puts nulls first when descending"
    last = admin.table("books").select("id").order("pages", desc=True, nullsfirst=False)
    assert ids(last.execute()) == [2, 4, 1, 5, 3]
    first = admin.table("books").select("id").order("pages", nullsfirst=True)
    assert ids(first.execute()) == [3, 5, 1, 4, 2]


def test_order_by_a_json_path(admin: Client) -> None:
    query = admin.table("books").select("id").not_.is_("details->>lang", "null").order("details->>lang", desc=True)
    assert ids(query.order("id").execute()) == [2, 1, 4]


def test_pages_carry_an_exact_count(admin: Client) -> None:
    page = admin.table("books").select("id", count="exact").order("id").range(1, 2).execute()
    assert (ids(page), page.count) == ([2, 3], 5)
    offset = admin.table("books").select("id", count="exact").order("id").limit(2).offset(3).execute()
    assert (ids(offset), offset.count) == ([4, 5], 5)
    head = admin.table("books").select("id", count="exact", head=True).execute()
    assert head.count == 5


def test_a_part_is_206_with_its_range_and_the_whole_is_200(gateway: Gateway, http: httpx.Client) -> None:
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "count=exact"}
    part = http.get("/rest/v1/books?select=id&limit=2&offset=1", headers=headers)
    assert (part.status_code, part.headers["content-range"]) == (206, "1-2/5")
    ranged = http.get("/rest/v1/books?select=id", headers={**headers, "Range": "3-10", "Range-Unit": "items"})
    assert (ranged.status_code, ranged.headers["content-range"], len(ranged.json())) == (206, "3-4/5", 2)
    whole = http.get("/rest/v1/books?select=id", headers=headers)
    assert (whole.status_code, whole.headers["content-range"]) == (200, "0-4/5")


def test_an_offset_beyond_the_end_is_416(admin: Client, gateway: Gateway, http: httpx.Client) -> None:
    with pytest.raises(APIError) as caught:
        admin.table("books").select("id", count="exact").range(100, 110).execute()
    assert caught.value.code == "PGRST103"
    headers = {"apikey": gateway.settings.secret_key, "Prefer": "count=exact"}
    assert http.get("/rest/v1/books?select=id&offset=100", headers=headers).status_code == 416


def test_single_wants_exactly_one_row(admin: Client) -> None:
    assert admin.table("books").select("id").eq("id", 2).single().execute().data == {"id": 2}
    for query, rows in ((admin.table("books").select("id").eq("id", 99), 0), (admin.table("books").select("id"), 5)):
        with pytest.raises(APIError) as caught:
            query.single().execute()
        assert (caught.value.code, caught.value.details) == ("PGRST116", f"The result contains {rows} rows")
    assert admin.table("books").select("id").eq("id", 99).maybe_single().execute() is None


def test_children_parents_and_grandchildren_are_embedded(admin: Client) -> None:
    children = admin.table("authors").select("name, books(title, reviews(stars))").eq("id", 1).execute().data
    assert children == [
        {
            "name": "Ada",
            "books": [{"title": "Alpha", "reviews": [{"stars": 5}, {"stars": 3}]}, {"title": "Beta", "reviews": []}],
        }
    ]
    parent = admin.table("reviews").select("stars, books(title, authors(name))").eq("id", 3).execute().data
    assert parent == [{"stars": 1, "books": {"title": "Delta", "authors": {"name": "Ben"}}}]
    orphan = admin.table("books").select("title, authors(name)").eq("id", 5).execute().data
    assert orphan == [{"title": "Orphan", "authors": None}]


def test_an_inner_embed_filters_its_parent(admin: Client) -> None:
    query = admin.table("books").select("id, authors!inner(name)").eq("authors.name", "Ben").order("id")
    assert ids(query.execute()) == [3, 4]
    left = admin.table("books").select("id, authors(name)").eq("authors.name", "Ben").order("id").execute()
    assert [row["authors"] for row in left.data] == [None, None, {"name": "Ben"}, {"name": "Ben"}, None]


def test_embedded_rows_are_ordered_limited_counted_renamed_and_spread(admin: Client) -> None:
    query = admin.table("authors").select("books(title)").order("title", desc=True, foreign_table="books")
    assert query.limit(1, foreign_table="books").eq("id", 1).execute().data == [{"books": [{"title": "Beta"}]}]
    counted = admin.table("authors").select("works:books(count)").order("id").execute().data
    assert [row["works"][0]["count"] for row in counted] == [2, 2, 0]
    spread = admin.table("books").select("title, ...authors(author:name)").eq("id", 1).execute().data
    assert spread == [{"title": "Alpha", "author": "Ada"}]


def test_json_paths_and_casts_are_selected(admin: Client) -> None:
    row = admin.table("books").select("details->parts->1->n, lang:details->>lang, pages::text").eq("id", 1).execute()
    assert row.data == [{"n": 2, "lang": "en", "pages": "100"}]


def test_a_view_is_read_like_a_table_and_embeds_too(admin: Client) -> None:
    rows = admin.table("long_books").select("title, authors(name)").order("pages").execute().data
    assert rows == [
        {"title": "Delta", "authors": {"name": "Ben"}},
        {"title": "Beta", "authors": {"name": "Ada"}},
    ]


def test_a_read_answers_at_most_a_thousand_rows(admin: Client, sql: psycopg.Connection) -> None:
    sql.execute("insert into public.reviews (book_id, stars) select 2, 4 from generate_series(1, 1100)")
    page = admin.table("reviews").select("id", count="exact").eq("book_id", 2).execute()
    assert (len(page.data), page.count) == (1000, 1100)
    sql.execute("delete from public.reviews where book_id = 2")


def test_rows_as_csv(admin: Client) -> None:
    assert admin.table("books").select("id,title").in_("id", [1, 3]).order("id").csv().execute().data == (
        'id,title\n1,Alpha\n3,"Gamma, part 1"'
    )
