"""Fetches stored items by record or by id, and sort values of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from common.errors import InternalError
from common.hits_page_byte_limit import PAGE_BYTES_MAX
from common.item_placement import hash_id
from common.protocol.messages import FetchRequest, FetchResponse, GetRequest, GetResponse
from shard.collect.top_hits.hits_and_sort_values import Hits, sort_values
from shard.read.highlight import mark_documents
from shard.segment.columns.external_ids import find_few_live, is_item_of, shown_id_of
from shard.segment.doc_records_and_places import places_of, records_of_few

if TYPE_CHECKING:
    from shard.segment.snapshot import Snapshot

READ_FAST_MAX: Final = 64
"""Reading more documents, to mark them, takes up to milliseconds (1,000 of 2 KB: 3.7 ms)."""
_RECORD_BYTES: Final = 8


def fetch(snapshot: Snapshot, request: FetchRequest) -> FetchResponse:
    """Return stored documents by record, without marks; or their sort values."""
    if request.sort:
        return FetchResponse((), (), _sort_values_of(snapshot, request))
    records = np.frombuffer(request.records, np.uint64)
    documents = snapshot.read_documents(records, PAGE_BYTES_MAX)
    return FetchResponse(tuple(documents), ())


def with_marks(snapshot: Snapshot, request: FetchRequest, fetched: FetchResponse) -> FetchResponse:
    """Return fetched documents with the marks that the request wants."""
    assert request.highlight is not None
    documents = documents_of(fetched)
    marks = mark_documents(snapshot, documents, request.query, request.highlight)
    return FetchResponse(fetched.documents, marks)


def documents_of(fetched: FetchResponse) -> list[bytes]:
    """Return all fetched documents."""
    documents = [one for one in fetched.documents if one is not None]
    assert len(documents) == len(fetched.documents), "only `fetch_some` leaves some out"
    return documents


def fetch_with_marks(snapshot: Snapshot, request: FetchRequest) -> FetchResponse:
    """Return stored documents by record, with the marks that the request wants."""
    return with_marks(snapshot, request, fetch(snapshot, request))


def are_many(request: FetchRequest) -> bool:
    """Return whether a request wants so many documents that reading them may take milliseconds."""
    return len(request.records) > _RECORD_BYTES * READ_FAST_MAX


def _sort_values_of(snapshot: Snapshot, request: FetchRequest) -> tuple[tuple[Any, ...], ...]:
    """Return, by sort key, the value of each record."""
    records = np.frombuffer(request.records, np.uint64)
    views, docs, places = [], [], []
    for record in records.tolist():
        found = snapshot.locate(record)
        if found is None:
            raise InternalError(f"record {record} is in no segment")
        position, doc = found
        views.append(position)
        docs.append(doc)
        places.append(places_of(snapshot.views[position].segment, np.array([doc]))[0])
    hits = Hits(
        np.array(views, np.int64),
        np.array(docs, np.uint32),
        np.array(places, np.uint64),
        records,
        None,
    )
    return tuple(sort_values(snapshot, hits, key) for key in request.sort)


def fetch_some(snapshot: Snapshot, request: FetchRequest) -> FetchResponse:
    """Return the first stored documents of some records, or their ids; see `FetchRequest`."""
    records = np.frombuffer(request.records, np.uint64).tolist()
    documents = snapshot.documents.read_some(records, request.bytes_max)
    if request.wants_ids:
        documents = [None if one is None else shown_id_of(one) for one in documents]
    return FetchResponse(tuple(documents), ())


def get(snapshot: Snapshot, request: GetRequest) -> GetResponse:
    """Return the live document that has an id.

    The hash finds candidates, newest segment first; the stored document confirms the id.
    """
    hashes = np.array([hash_id(request.id)], np.uint64)
    for view in reversed(snapshot.views):
        _, docs = find_few_live(view.segment, view.deleted, hashes)
        if not len(docs):
            continue
        for document in snapshot.documents.read(records_of_few(view.segment, docs)):
            if is_item_of(document, request.id):
                return GetResponse(document)
    return GetResponse(None)
