"""All error codes that a client can receive, with status and meaning.

Clients may rely on codes; messages are for people and may change. A test compares this table with
the source, so the table is complete.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ErrorCode(NamedTuple):
    """One error code."""

    code: str
    status: int
    meaning: str


_ROWS: Final = (
    # --- 400: the request cannot be right
    ("bad_request", 400, "no valid HTTP request, or no Host header"),
    ("invalid_encoding", 400, "not UTF-8, or not the stream that Content-Encoding names"),
    ("invalid_json", 400, "the body is not valid JSON; the message gives the place"),
    ("invalid_body", 400, "the body has another form than this page takes, or is cut off"),
    ("unsupported_parameter", 400, "Algolia's protocol: what facetd cannot honour"),
    ("invalid_parameter", 400, "Algolia's protocol: the value of `param` is wrong"),
    ("unknown_parameter", 400, "there is no such parameter; the nearest known one is named"),
    ("invalid_request", 400, "two parameters have the same meaning"),
    ("query_too_long", 400, "the query text has too many characters"),
    ("invalid_filter", 400, "the filter expression is wrong; `position` says where"),
    ("too_many_filter_fields", 400, "filters name too many fields"),
    ("too_many_filter_values", 400, "all filters together have too many values"),
    ("unknown_facet", 400, "a filter names a field that is not a facet and has no values"),
    ("unknown_sort_field", 400, "no item has a value to sort by in that field"),
    ("missing_name", 400, "the facet page needs a `name`"),
    ("cursor_expired", 400, "the state that the cursor belongs to is gone; start again"),
    ("invalid_explanation", 400, "the search has too many filters and words to be explained"),
    ("invalid_searches", 400, "the list of searches is wrong"),
    ("invalid_merge", 400, "searches cannot be merged, or not like this"),
    ("searches_too_costly", 400, "all searches of a request together have too much to do"),
    ("invalid_configuration", 400, "`param` is the path of the first mistake"),
    ("invalid_index_name", 400, "that cannot be the name of an index, or is an alias"),
    ("too_many_indexes", 400, "there may be no more indexes"),
    ("invalid_aliases", 400, "the change of aliases is wrong"),
    (
        "invalid_snapshot",
        400,
        "the snapshot's name is invalid or taken, or there are too many snapshots",
    ),
    ("invalid_key", 400, "the requested API key is not possible, or cannot be deleted"),
    ("invalid_item", 400, "an item breaks a rule or a limit"),
    ("invalid_id", 400, "an id is an integer from 0 to 2^63-1 or a text of 1 to 256 bytes"),
    ("invalid_ids", 400, "the list of ids is wrong"),
    ("id_mismatch", 400, "the item's id is not the one in the path"),
    ("invalid_number", 400, "an integer beyond 64 bits, or a number that is not finite"),
    ("too_deep", 400, "values are nested too deep"),
    ("too_many_fields", 400, "an item has too many fields"),
    ("too_many_index_fields", 400, "the fields of all items of an index would be too many"),
    (
        "too_many_values",
        400,
        "an item has too many values in one facet, or the body of searches altogether",
    ),
    ("invalid_if_match", 400, "If-Match is not an ETag of this service"),
    ("unsupported_condition", 400, "a change does not take that condition, only If-Match"),
    ("invalid_on_error", 400, "on_error is fail or skip"),
    ("invalid_effective", 400, "effective is true or false"),
    ("invalid_days", 400, "the number of days of analytics is wrong"),
    ("invalid_size", 400, "the number of entries of analytics is wrong"),
    ("invalid_preview", 400, "preview is true or false"),
    ("invalid_placement", 400, "several hosts: the shard cannot be moved like that"),
    # --- 401 to 431
    ("unauthorized", 401, "an API key is needed, or it is wrong or expired"),
    ("forbidden", 403, "the API key does not allow this"),
    ("host_not_allowed", 403, "the Host header names a host that is not served"),
    ("origin_not_allowed", 403, "a web page of another origin may not change anything"),
    ("not_found", 404, "there is no such page"),
    ("index_not_found", 404, "there is no such index; a configuration creates it"),
    ("item_not_found", 404, "there is no such item"),
    ("facet_not_found", 404, "there is no such facet"),
    ("alias_not_found", 404, "there is no such alias"),
    ("analytics_off", 404, "nothing is counted: the setting analytics_days is 0"),
    ("key_not_found", 404, "there is no such API key"),
    ("snapshot_not_found", 404, "there is no such snapshot"),
    ("host_not_found", 404, "several hosts: there is no host of that name"),
    ("method_not_allowed", 405, "the page is there for other methods, named in Allow"),
    ("request_timeout", 408, "the body did not arrive in time"),
    ("version_conflict", 409, "the item is not the version that If-Match names"),
    (
        "index_replaced",
        409,
        "the name denotes another index than the one with that `index_number`; nothing was stored",
    ),
    (
        "index_exists",
        409,
        "there is an index or alias of the name that one is to be restored, copied or renamed to",
    ),
    (
        "index_changed_meanwhile",
        409,
        "no snapshot was made: an index was configured or deleted meanwhile",
    ),
    ("not_with_several_hosts", 409, "hosts that share a log do not do this over HTTP"),
    ("not_with_one_host", 409, "this host shares no log with others"),
    ("host_in_use", 409, "several hosts: the one to be forgotten still answers"),
    ("shards_differ", 409, "the snapshot was made with another number of shards"),
    ("snapshot_in_use", 409, "an index is being restored from the snapshot"),
    (
        "payload_too_large",
        413,
        "the body, inflated, is larger than its limit, or the items of the answer are",
    ),
    ("uri_too_long", 414, "the request target is too long; use POST"),
    ("unsupported_media_type", 415, "content type, charset or encoding is not taken"),
    ("expectation_failed", 417, "Expect asks for something else than 100-continue"),
    ("too_many_requests", 429, "too many requests of one client; see Retry-After"),
    ("headers_too_large", 431, "a header is too long, or there are too many"),
    # --- 5xx: the same request may succeed later
    ("internal", 500, "a bug; the log has details under the request id"),
    ("item_corrupt", 500, "a stored item is damaged"),
    ("snapshot_damaged", 500, "a file of the snapshot is not as it was made; nothing was restored"),
    ("shard_unavailable", 503, "a shard is away; see Retry-After"),
    ("overloaded", 503, "too much at once; see Retry-After"),
    ("switched", 503, "the configuration is being replaced, for long; see Retry-After"),
    ("log_unavailable", 503, "several hosts: the log is away, so nothing is written; reads go on"),
    (
        "replica_lags",
        503,
        "several hosts: this one lags by more than X-Max-Lag-Ms, too far to know that an index, "
        "alias or key does not exist, or for a configuration that the others have; see Retry-After",
    ),
    ("replica_stopped", 503, "several hosts: this one differs from the others; ask another one"),
    ("starting", 503, "the service is starting; see Retry-After"),
    ("partly_stored", 500, "items without ids: not_stored and unknown say which to look after"),
    ("stopping", 503, "the service stops; created and updated say what a load has stored"),
    ("deadline_exceeded", 504, "the answer did not come within the request's deadline"),
    ("insufficient_storage", 507, "the disk or a limit of storage is full; reads go on"),
)

PARAMETER_CODE: Final = "invalid_<parameter>"
"""The code of a search parameter with an invalid value: invalid_page, invalid_filters, …"""

ERROR_CODES: Final = {code: ErrorCode(code, status, meaning) for code, status, meaning in _ROWS}
