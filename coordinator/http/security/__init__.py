"""Who calls, from where, and what the caller may do; imports nothing else of `coordinator.http`.

access_control    who calls, by key or token, and whether the request is allowed
api_keys          what a key allows: actions, indexes, a filter
tenant_tokens     keys that an application signs itself
host_and_origin   which hosts and origins a request may name
cors              pages of other origins
rate_limit        requests a second and client; its address: client_address
listening_without_api_keys  is refused where anyone on the network could do anything
"""
