"""One file a peer, all alike; `peer.ADAPTERS` has their order."""
