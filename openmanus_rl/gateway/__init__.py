"""The only importer of supabase, httpx and psycopg: one door in, and our own errors out."""

from openmanus_rl.gateway.client import MAX_PAGE_ROWS, Gateway, Row
from openmanus_rl.gateway.connections import forget_gateways, get_gateway, get_supabase, open_gateway
from openmanus_rl.gateway.filters import Filter, Order, Page, asc, desc
from openmanus_rl.gateway.http import HttpDoor
from openmanus_rl.gateway.objects import Bucket, Entry, ObjectInfo, check_object_path
from openmanus_rl.gateway.retry import RetryPolicy
from openmanus_rl.gateway.storage import Storage
from openmanus_rl.gateway.transfer import FileSource, fingerprint

__all__ = [
    "MAX_PAGE_ROWS",
    "Bucket",
    "Entry",
    "FileSource",
    "Filter",
    "Gateway",
    "HttpDoor",
    "ObjectInfo",
    "Order",
    "Page",
    "RetryPolicy",
    "Row",
    "Storage",
    "asc",
    "check_object_path",
    "desc",
    "fingerprint",
    "forget_gateways",
    "get_gateway",
    "get_supabase",
    "open_gateway",
]
