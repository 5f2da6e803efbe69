"""The web app of `demo --rollouts`: the orders of a small shop. It needs nothing but Python."""

from __future__ import annotations

import html
import http.server
import os
from typing import Any
from urllib.parse import parse_qs, urlsplit

ORDERS: dict[int, list[Any]] = {
    1001: ["Ada Lovelace", "Brass gears", 3, 12.50, "open"],
    1002: ["Grace Hopper", "Relay switches", 10, 4.20, "shipped"],
    1003: ["Ada Lovelace", "Punched cards", 500, 0.17, "open"],
    1004: ["Alan Turing", "Paper tape", 2, 31.00, "open"],
    1005: ["Ada Lovelace", "Ink", 1, 9.90, "shipped"],
    1006: ["Grace Hopper", "Paper tape", 1, 31.00, "open"],
}
STOCK = {"Brass gears": 40, "Relay switches": 7, "Punched cards": 12_000, "Paper tape": 0, "Ink": 3}

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1f2937;background:#f8fafc}
header{background:#1d4ed8;color:#fff;padding:14px 28px}header a{color:#fff;margin-right:20px;text-decoration:none}
main{max-width:860px;margin:24px auto;background:#fff;padding:20px 28px;border-radius:10px;box-shadow:0 1px 4px #0002}
table{border-collapse:collapse;width:100%}td,th{padding:8px 10px;text-align:left;border-bottom:1px solid #e5e7eb}
input,button{font:inherit;padding:8px 12px;border-radius:6px;border:1px solid #cbd5e1}
button{background:#1d4ed8;color:#fff;border:0;cursor:pointer}.open{color:#b45309}.shipped{color:#15803d}
"""


def page(title: str, body: str) -> str:
    """Return a page of the shop."""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"
        "<header><b>Difference Engine Supplies</b> &nbsp; <a id=orders href=/>Orders</a>"
        "<a id=stock href=/stock>Stock</a></header>"
        f"<main><h1>{html.escape(title)}</h1>{body}</main></html>"
    )


def order_list(search: str) -> str:
    """Return the page with the orders that match."""
    found = {
        number: order
        for number, order in ORDERS.items()
        if search.lower() in f"{number} {' '.join(map(str, order))}".lower()
    }
    rows = "".join(
        f"<tr class=order><td><a href=/orders/{number}>{number}</a><td>{html.escape(order[0])}"
        f"<td>{html.escape(order[1])}<td class={order[4]}>{order[4]}"
        for number, order in found.items()
    )
    open_count = sum(order[4] == "open" for order in found.values())
    return page(
        "Orders",
        f"<form><input id=search name=q placeholder='Search orders' value='{html.escape(search, quote=True)}'> "
        f"<button>Search</button></form><table><tr><th>Order<th>Customer<th>Product<th>Status{rows}</table>"
        f"<p><span id=open-count>{open_count}</span> open of <span id=count>{len(found)}</span>",
    )


def order_page(number: int) -> str:
    """Return the page of an order."""
    customer, product, quantity, price, status = ORDERS[number]
    button = "" if status == "shipped" else "<form method=post><button id=ship>Mark as shipped</button></form>"
    return page(
        f"Order {number}",
        f"<table><tr><th>Customer<td>{html.escape(customer)}<tr><th>Product<td>{html.escape(product)}"
        f"<tr><th>Quantity<td>{quantity}<tr><th>Total<td id=total>{quantity * price:.2f}"
        f"<tr><th>Status<td id=status class={status}>{status}</table><p>{button}",
    )


def stock_page() -> str:
    """Return the page with what is in stock."""
    rows = "".join(f"<tr><td>{html.escape(name)}<td>{count}" for name, count in STOCK.items())
    return page("Stock", f"<table><tr><th>Product<th>In stock{rows}</table>")


class Shop(http.server.BaseHTTPRequestHandler):
    """Answers requests."""

    def do_GET(self) -> None:
        """Show a page."""
        url = urlsplit(self.path)
        number = url.path.removeprefix("/orders/")
        if url.path == "/":
            self._answer(200, order_list(parse_qs(url.query).get("q", [""])[0]))
        elif url.path == "/stock":
            self._answer(200, stock_page())
        elif number.isdecimal() and int(number) in ORDERS:
            self._answer(200, order_page(int(number)))
        else:
            self._answer(404, page("Not found", "<p>There is no such page."))

    def do_POST(self) -> None:
        """Mark an order as shipped."""
        number = self.path.removeprefix("/orders/")
        if number.isdecimal() and int(number) in ORDERS:
            ORDERS[int(number)][4] = "shipped"
            self.send_response(303)
            self.send_header("location", self.path)
            self.end_headers()
        else:
            self._answer(404, page("Not found", "<p>There is no such page."))

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Shop).serve_forever()
