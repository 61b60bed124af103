"""The RPC between coordinator and shards, and between hosts: many calls on one TCP stream.

    RpcClient.call ── msgid 1 ──▶                        ┌── handler returns a result: sent at once
                   ── msgid 2 ──▶  one TCP connection ───┤
                   ◀── msgid 2 ──  responses in any order└── handler returns a future: sent later

| module | question |
|---|---|
| `framing` | where does a frame begin and end, and what is in it? |
| `authentication` | may this client talk to this server, and is it the server that it looks for? |
| `client` | which response belongs to which call, and what ends a call without one? |
| `server` | which handler serves a call, and which connections are kept? |
| `messages`, `methods` | what can be called, with what, and what comes back? |
| `write_operations_and_outcomes`, `packed_counts` | how do writes and facet counts travel? |

What both sides rely on:

- Every call has a deadline. A call without a response by then fails with `DeadlineExceeded`. Both
  sides simply forget a read: the client drops a late response by its msgid; the server knows how
  long the caller waits, does not start a read that comes too late, and handlers poll
  `common.deadline.check_call`. A write always runs to its end. After a late *write* the client
  closes the connection: later calls must not be applied after a write whose outcome is unknown.
- Nor does a read go on whose caller has given up, because its own client left or another shard
  failed: `give_up` names such calls. The server drops those that wait, and lets the deadline of
  those that run have passed. When a connection ends, its reads are given up too.
- A frame over the limit, an undecodable frame or a response to a call that was never made closes
  the connection. When a connection ends, for any reason, every call in flight fails at once with
  `Unavailable`; whether a write among them was applied is unknown.
- A closed connection is never reused. Its owner reconnects (with a new `RpcClient`), so a response
  can never reach a call of another connection.
"""
