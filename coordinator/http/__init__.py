"""The HTTP edge: connections, routing, access, and the bytes of requests and responses.

A request, in the order of its steps:

    app                listens, serves, stops; listening: on every address of a host
    aiohttp_connections  connections, by aiohttp; their number is bounded
    request            head and body of one request; compressed bodies:
                       request_decompression
    middleware         what every request goes through before and after its route
    reader_coordinator_forwarding  where a reader passes a request on to the owner, by
                       reader_coordinator_messages
    tracing            the same within a span of OpenTelemetry
    routing            path → function; route: how a handler declares its path
    services           what routes need: search, catalog, shards, …
    responses          head and body on the socket; result_bodies: the JSON of results
    unsent_responses   of clients that read slowly: the memory they hold is bounded

Access:

    access_control     who calls, by key; api_keys: what the caller may do
    host_and_origin    which hosts and origins a request may name
    listening_without_api_keys  is refused where anyone on the network could do anything
    cors               pages of other origins
    tenant_tokens      keys that an application signs itself
    rate_limit         requests a second and client; its address: client_address

Counts:

    metrics            what is counted; prometheus_metrics: in its format
    reader_coordinator_reports  counts of readers, summed by the owner
    slow_queries       the slowest searches

The API describes itself:

    openapi            the document; docs_page: the same for people
    route_documentation  parameters and bodies in words, for that page and docs/reference.md
    schemas/           bodies and responses
    error_codes        every code, its status and meaning
    missing_page       for browsers, where there is no page
    endpoints_of_other_engines  which of our pages serves instead of another engine's
"""
