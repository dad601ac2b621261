/** The part of the catalogue that only `reverse_proxy` counts: backends, routes, waiting, and what is open. */
export const PROXY_METRICS = {
  edge_backend_response_seconds: {
    type: 'histogram',
    labels: [],
    bounds: [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    help: "Time from sending a request to the headers of the backend's response.",
  },
  edge_backend_responses_total: { type: 'counter', labels: ['status'], help: "The backend's responses by class of status, such as 2xx." },
  edge_backend_failures_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests to which the backend did not respond completely, by X-Edge-Reason.',
  },
  edge_backend_retries_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Requests sent a second time, by what failed the first time.',
  },
  edge_backend_connections: { type: 'gauge', labels: [], help: 'Open connections to the backend, including idle ones.' },
  edge_backend_queue_requests: {
    type: 'gauge',
    labels: [],
    help: 'Requests waiting for a connection to the backend, because EDGE_BACKEND_MAX_CONNECTIONS are in use.',
  },
  edge_backend_queue_seconds: {
    type: 'histogram',
    labels: [],
    bounds: [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    help: 'How long requests waited for a connection to the backend; only requests that waited and got one.',
  },
  edge_route_attempts_total: {
    type: 'counter',
    labels: ['backend', 'outcome'],
    help: 'Calls to the backends of routes: class of status, 429, connect, timeout, broken (before the head), busy, or client_gone.',
  },
  edge_route_retries_total: {
    type: 'counter',
    labels: ['backend', 'reason'],
    help: 'Calls to a backend after which the request went to another one, by outcome of the call.',
  },
  edge_route_response_seconds: {
    type: 'histogram',
    labels: ['backend'],
    bounds: [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    help: "Time from the beginning of a call to the headers of the backend's response, including the wait for a connection.",
  },
  edge_route_connections: { type: 'gauge', labels: ['backend'], help: 'Open connections to a backend of routes, including idle ones.' },
  edge_route_queue: { type: 'gauge', labels: ['backend'], help: 'Requests waiting for a connection to a backend of routes.' },
  edge_route_cooling: {
    type: 'gauge',
    labels: ['backend'],
    help: '1 while a backend of the active bundle cools after failures, and gets no requests if there is another one; 0 is good.',
  },
  edge_route_cooling_models: {
    type: 'gauge',
    labels: ['backend'],
    help: 'Models of a backend of the active bundle that cool, because the provider refused them (429, 401, 402, 403).',
  },
  edge_route_coolings_total: {
    type: 'counter',
    labels: ['backend', 'reason'],
    help: 'How often a backend, or a model of it, began to cool, by the last failure: 5xx, connect, timeout, 429, 401, 402 or 403.',
  },
  edge_waits_total: {
    type: 'counter',
    labels: ['policy', 'rule', 'outcome'],
    help: 'Requests that a rule with wait_seconds made wait, by outcome: allowed, rejected, refused, client_gone, or full (no place to wait).',
  },
  edge_wait_seconds: {
    type: 'histogram',
    labels: [],
    bounds: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60],
    help: 'How long requests waited for rules with wait_seconds, whatever the outcome.',
  },
  edge_waiting_requests: { type: 'gauge', labels: [], help: 'Requests that wait for a rule with wait_seconds.' },
  edge_proxy_open_requests: { type: 'gauge', labels: [], help: 'Requests in flight to the backend, until the response is complete.' },
  edge_proxy_open_tunnels: { type: 'gauge', labels: [], help: 'Open WebSocket connections.' },
  edge_proxy_open_streams: { type: 'gauge', labels: [], help: 'Open event streams and WebSocket connections, which a block can end.' },
  edge_proxy_streams_cut_total: {
    type: 'counter',
    labels: ['policy', 'rule'],
    help: 'Open streams and WebSockets that a block with cut_streams ended.',
  },
  edge_proxy_open_holds: {
    type: 'gauge',
    labels: [],
    help: 'Requests in flight that concurrency rules count, once for each rule.',
  },
  edge_hold_renewals_total: {
    type: 'counter',
    labels: ['result'],
    help: 'Renewals of requests in flight: renewed, late (it may have ended, and was taken again), or failed (tried again later).',
  },
  edge_proxy_body_memory_bytes: {
    type: 'gauge',
    labels: [],
    help: 'Memory claimed for request bodies that token budgets read; EDGE_BODY_MEMORY limits it.',
  },
  edge_proxy_waiting_uploads: { type: 'gauge', labels: [], help: 'Uploads waiting for memory for their bodies, or for their share of it.' },
  edge_proxy_client_aborts_total: { type: 'counter', labels: [], help: 'Clients that disconnected before their response was complete.' },
} as const
