"""The HTTP edge: connections, routing, access, and the bytes of requests and responses.

A request, in the order of its steps:

    app                listens, serves, stops; listening: on every address of a host
    aiohttp_connections  connections, by aiohttp; their number is bounded
    request            head and body of one request: content_types, body_limits; compressed
                       bodies: request_decompression
    middleware         what every request goes through before and after its route
    reader_coordinator_forwarding  where a reader passes a request on to the owner, by
                       reader_coordinator_messages
    tracing            the same within a span of OpenTelemetry; whether its libraries
                       are there: libraries_of_traces
    routing            path → function
    services           what routes need: search, catalog, shards, …
    responses          head and body on the socket; result_bodies: the JSON of results
    unsent_responses   of clients that read slowly: the memory they hold is bounded

Counts:

    metrics            what is counted; prometheus_metrics: in its format
    reader_coordinator_reports  counts of readers, summed by the owner
    slow_queries       the slowest searches

Pages that are not ours:

    missing_page       for browsers, where there is no page
    endpoints_of_other_engines  which of our pages serves instead of another engine's

Folders:

    security/          who calls, from where, and what the caller may do
    api_description/   routes as their handlers declare them, and what is derived: OpenAPI, /_docs
"""
