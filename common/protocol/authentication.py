"""Authentication at the handshake of an RPC connection: both sides prove that they know a secret.

    client                                        server
           ◀──────────── challenge: nonce
    hello, client nonce, proof ────────────▶      checks proof, protocol version and shard
           ◀──────────── welcome, proof
    checks proof

The secret, the data directory's, never crosses the wire: another program may have taken the port
that a shard has just released, and would otherwise learn the secret, or could impersonate the
shard. A proof is an HMAC over both nonces, so it is good for one connection only; the two sides
prove different texts, so neither proof can be sent back to its sender.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from common.errors import InvalidRequest, Unauthorized
from common.protocol.messages import PROTOCOL_VERSION, Hello, Welcome

NONCE_BYTES = 16


def client_proof(secret: str, nonce: bytes, client_nonce: str, hello: Hello) -> str:
    """Return the client's proof that it knows the secret, on this connection, for this shard."""
    what = f"coordinator {hello.protocol_version} {hello.shard} {hello.num_shards} {client_nonce} "
    return hmac.new(secret.encode(), what.encode() + nonce, "sha256").hexdigest()


def server_proof(secret: str, nonce: bytes, client_nonce: str) -> str:
    """Return the server's proof that it knows the secret, on this connection."""
    what = f"shard {client_nonce} "
    return hmac.new(secret.encode(), what.encode() + nonce, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates the clients of one server.

    Attributes:
        secret: what both sides read from the data directory.
        shard: ordinal of the shard that the server is, or what stands for a whole host.
        num_shards: number of shards over which the data were divided.
        make_welcome: makes the response to an accepted `hello`, without a proof.
    """

    secret: str
    shard: int
    num_shards: int
    make_welcome: Callable[[], Welcome]

    def check(self, hello: Hello, nonce: bytes) -> None:
        """Check a `hello`, the response to the challenge `nonce`.

        Raises:
            Unauthorized: the client does not know the secret.
            InvalidRequest: the client speaks another protocol, or wants another shard.
        """
        client_nonce, _, proof = hello.secret.partition(":")
        expected = client_proof(self.secret, nonce, client_nonce, hello)
        if not hmac.compare_digest(proof.encode(), expected.encode()):
            raise Unauthorized("the secret does not match this shard's data directory")
        if hello.protocol_version != PROTOCOL_VERSION:
            raise InvalidRequest(
                f"this shard speaks protocol {PROTOCOL_VERSION}, not {hello.protocol_version}"
            )
        if (hello.shard, hello.num_shards) != (self.shard, self.num_shards):
            raise InvalidRequest(
                f"this is shard {self.shard} of {self.num_shards}, "
                f"not {hello.shard} of {hello.num_shards}"
            )

    def welcome(self, hello: Hello, nonce: bytes) -> Welcome:
        """Return the response to a `hello` that was checked, with our proof."""
        client_nonce = hello.secret.partition(":")[0]
        proof = server_proof(self.secret, nonce, client_nonce)
        return msgspec.structs.replace(self.make_welcome(), proof=proof)
