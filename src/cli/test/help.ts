export const TEST_HELP = `Usage: edge test [options] BUNDLE CASES...

Runs cases on a policy bundle: the requests of each, at the times it gives, on the engine that edge serve uses, and compares
the responses with the expected ones. Nothing is sent, and no time passes. CASES are YAML or JSON files; - is standard input.

  --tap               print TAP 14 for programs
  --mode MODE         decision_service (requests as a gateway asks about them) or reverse_proxy (bodies are read)
                      [decision_service]

A case:

  - name: five at once, then one a second
    at: 2026-01-01T00:00:00Z            # the default
    steps:
      - request: { method: GET, uri: /api/x, headers: { x-api-key: alice } }
        times: 6
        expect: { status: [200, 200, 200, 200, 200, 429], reason: token_bucket_exceeded, headers: { Retry-After: 1 } }
      - after: 1s
        request: { uri: /api/x, headers: { x-api-key: alice } }
        expect: { status: 200 }

Each case starts with full counters. EDGE_TRUSTED_PROXIES, EDGE_GEOIP_FILE, EDGE_IP_TYPE_FILE, EDGE_TOR_EXITS_FILE,
EDGE_GATEWAY_HINTS and EDGE_MAX_BODY_BYTES count as for edge serve.
Exit status: 0 if all cases hold; 1 if one does not, or if the bundle or a file is not valid.
`
