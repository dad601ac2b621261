import { DEFAULT_TRUSTED_PROXIES } from '../request/client-address.ts'
import { MIN_TABLE_BYTES } from '../store/table/table-layout.ts'
import {
  readAdminToken,
  readAny,
  readBackendUrl,
  readChoice,
  readConfigUrl,
  readConnections,
  readDurationMs,
  readEventsSecret,
  readEventsUrl,
  readHost,
  readKeys,
  readLongSecret,
  readOtlpUrl,
  readPort,
  readPortOrOff,
  readRedisAddress,
  readRedisPrefix,
  readSeconds,
  readSecret,
  readShare,
  readSize,
  readSocketMode,
  readSocketPath,
  readToken,
  readTrustedProxies,
  readWorkers,
} from './config-values.ts'

export interface Setting<Value> {
  readonly env: string
  /** Secrets have no flag, because command lines are public. */
  readonly flag?: string
  /** The text that is read if nothing is set; undefined if the setting is optional. */
  readonly fallback?: string
  readonly about: string
  /** Throws a BadValue that completes the sentence "EDGE_X: expected …". */
  read(text: string | undefined): Value
}

const MODES = ['decision_service', 'reverse_proxy'] as const
const BACKEND_HOSTS = ['backend', 'client'] as const
const REDIS_MODES = ['exact', 'leased'] as const
const REDIS_FAILURE_MODES = ['local', 'open', 'closed'] as const
const SWITCH = ['on', 'off'] as const
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const MAX_STORE_BYTES = 8 * 1024 ** 3
/** A JavaScript string holds less than 512 MiB. */
const MAX_BODY_BYTES = 256 * 1024 ** 2
const MAX_BODY_MEMORY_BYTES = 64 * 1024 ** 3
/** The longest that a decision may wait and a lease may live. */
const MAX_REDIS_MS = 60_000
/** A shorter lease costs more renewals than it saves calls. */
const MIN_LEASE_MS = 50

export const SETTINGS = {
  port: {
    env: 'EDGE_PORT',
    flag: 'port',
    fallback: '8080',
    about: 'port to listen on, or off to listen only on a unix socket or for gRPC',
    read: (text) => readPortOrOff(text!),
  },
  host: { env: 'EDGE_HOST', flag: 'host', about: 'address to listen on; all interfaces when unset', read: readHost },
  socket: {
    env: 'EDGE_SOCKET',
    flag: 'socket',
    about: 'path of a unix socket to listen on, beside the port or instead of it (EDGE_PORT=off)',
    read: readSocketPath,
  },
  socketMode: {
    env: 'EDGE_SOCKET_MODE',
    flag: 'socket-mode',
    fallback: '0660',
    about: 'permissions of unix sockets, in octal: who may connect',
    read: (text) => readSocketMode(text!),
  },
  mode: {
    env: 'EDGE_MODE',
    flag: 'mode',
    fallback: 'decision_service',
    about: 'decision_service decides for a gateway; reverse_proxy forwards allowed requests to a backend',
    read: (text) => readChoice(text!, MODES),
  },
  backendUrl: {
    env: 'EDGE_BACKEND_URL',
    flag: 'backend-url',
    about: 'backend of reverse_proxy, http or https; required in that mode, ignored in the other',
    read: readBackendUrl,
  },
  backendHost: {
    env: 'EDGE_BACKEND_HOST',
    flag: 'backend-host',
    fallback: 'backend',
    about: 'Host header sent to the backend: backend (the host of the URL) or client (what the client sent)',
    read: (text) => readChoice(text!, BACKEND_HOSTS),
  },
  backendConnectTimeoutMs: {
    env: 'EDGE_BACKEND_CONNECT_TIMEOUT_MS',
    flag: 'backend-connect-timeout-ms',
    fallback: '5000',
    about: 'how long connecting to the backend may take',
    read: (text) => readDurationMs(text!, 1),
  },
  backendHeadersTimeoutMs: {
    env: 'EDGE_BACKEND_HEADERS_TIMEOUT_MS',
    flag: 'backend-headers-timeout-ms',
    fallback: '300000',
    about: "how long the headers of the backend's response may take; 0: no limit",
    read: (text) => readDurationMs(text!),
  },
  backendIdleTimeoutMs: {
    env: 'EDGE_BACKEND_IDLE_TIMEOUT_MS',
    flag: 'backend-idle-timeout-ms',
    fallback: '300000',
    about: 'how long a body may pause, in either direction; 0: no limit',
    read: (text) => readDurationMs(text!),
  },
  backendMaxConnections: {
    env: 'EDGE_BACKEND_MAX_CONNECTIONS',
    flag: 'backend-max-connections',
    about: 'most connections to the backend, all workers together; unset: half of what the limit on open files leaves',
    read: readConnections,
  },
  backendQueueMs: {
    env: 'EDGE_BACKEND_QUEUE_MS',
    flag: 'backend-queue-ms',
    fallback: '1000',
    about: 'how long a request waits for one of these connections; then 503',
    read: (text) => readDurationMs(text!),
  },
  maxBodyBytes: {
    env: 'EDGE_MAX_BODY_BYTES',
    flag: 'max-body-bytes',
    fallback: '16m',
    about: 'largest request body that is read for LLM budgets and llm:model, such as 512k or 16m; a larger one gets 413',
    read: (text) => readSize(text!, 1, MAX_BODY_BYTES),
  },
  bodyMemoryBytes: {
    env: 'EDGE_BODY_MEMORY',
    flag: 'body-memory',
    fallback: '256m',
    about: 'memory for all request bodies that are read at the same time',
    read: (text) => readSize(text!, 1, MAX_BODY_MEMORY_BYTES),
  },
  configFile: {
    env: 'EDGE_CONFIG_FILE',
    flag: 'config-file',
    about: 'policy bundle, JSON or YAML, reloaded when it changes',
    read: readAny,
  },
  configUrl: {
    env: 'EDGE_CONFIG_URL',
    flag: 'config-url',
    about: 'URL of the policy bundle, http or https, instead of a file',
    read: readConfigUrl,
  },
  configToken: {
    env: 'EDGE_CONFIG_TOKEN',
    about: 'bearer token for EDGE_CONFIG_URL',
    read: readToken,
  },
  configPollMs: {
    env: 'EDGE_CONFIG_POLL_INTERVAL',
    flag: 'config-poll-interval',
    fallback: '30',
    about: 'seconds between two polls of EDGE_CONFIG_URL',
    read: (text) => readSeconds(text!, 0.1, 86_400) * 1000,
  },
  configCacheFile: {
    env: 'EDGE_CONFIG_CACHE_FILE',
    flag: 'config-cache-file',
    about: 'file that stores the last good bundle from EDGE_CONFIG_URL, for a startup while it is unreachable',
    read: readAny,
  },
  configPublicKeys: {
    env: 'EDGE_CONFIG_PUBLIC_KEY',
    flag: 'config-public-key',
    about: 'accept only bundles signed by this Ed25519 key, as edge keygen prints it; separate several with commas',
    read: readKeys,
  },
  debugSessionSecret: {
    env: 'EDGE_DEBUG_SESSION_SECRET',
    about: 'secret that opens debug sessions; without it the debug endpoints return 404',
    read: readSecret,
  },
  logLevel: {
    env: 'EDGE_LOG_LEVEL',
    flag: 'log-level',
    fallback: 'info',
    about: LOG_LEVELS.join(', '),
    read: (text) => readChoice(text!, LOG_LEVELS),
  },
  adminPort: {
    env: 'EDGE_ADMIN_PORT',
    flag: 'admin-port',
    about: "separate port for /livez, /readyz, /metrics, the debug endpoints, the admin API and the operators' page",
    read: (text) => (text === undefined ? undefined : readPort(text)),
  },
  adminToken: {
    env: 'EDGE_ADMIN_TOKEN',
    about: 'bearer token of the admin API on EDGE_ADMIN_PORT, at least 32 characters; without it the API and the page return 404',
    read: readAdminToken,
  },
  top: {
    env: 'EDGE_TOP',
    flag: 'top',
    fallback: 'on',
    about: 'whether the admin API can list callers that are rejected most, with their values: on or off',
    read: (text) => readChoice(text!, SWITCH) === 'on',
  },
  eventsUrl: {
    env: 'EDGE_EVENTS_URL',
    flag: 'events-url',
    about: 'URL that events are posted to in batches, http or https, signed with EDGE_EVENTS_SECRET',
    read: readEventsUrl,
  },
  eventsSecret: {
    env: 'EDGE_EVENTS_SECRET',
    about: 'secret that signs what is posted to EDGE_EVENTS_URL: whsec_ and at least 24 bytes in base64',
    read: readEventsSecret,
  },
  otlpUrl: {
    env: 'EDGE_OTLP_URL',
    flag: 'otlp-url',
    about: 'OpenTelemetry collector, http or https: traces are sent to /v1/traces below this URL (OTLP)',
    read: readOtlpUrl,
  },
  otlpSample: {
    env: 'EDGE_OTLP_SAMPLE',
    flag: 'otlp-sample',
    fallback: '0.01',
    about: 'share of requests that is traced, from 0 to 1; those whose caller traces them always are',
    read: (text) => readShare(text!),
  },
  grpcPort: {
    env: 'EDGE_GRPC_PORT',
    flag: 'grpc-port',
    about: 'port for gRPC (HTTP/2 without TLS): Envoy ext_authz, rate limit service, health; decision_service only',
    read: (text) => (text === undefined ? undefined : readPort(text)),
  },
  grpcSocket: {
    env: 'EDGE_GRPC_SOCKET',
    flag: 'grpc-socket',
    about: 'path of a unix socket for gRPC, beside its port or instead of it; decision_service only',
    read: readSocketPath,
  },
  trustedProxies: {
    env: 'EDGE_TRUSTED_PROXIES',
    flag: 'trusted-proxies',
    fallback: DEFAULT_TRUSTED_PROXIES,
    about: 'proxies whose X-Forwarded-* headers are trusted: CIDRs, loopback, linklocal, uniquelocal',
    read: (text) => readTrustedProxies(text!),
  },
  storeBytes: {
    env: 'EDGE_STORE_SIZE',
    flag: 'store-size',
    fallback: '64m',
    about: 'memory for counters, such as 512k, 64m or 2g; 64m holds a million callers',
    read: (text) => readSize(text!, MIN_TABLE_BYTES, MAX_STORE_BYTES),
  },
  workers: {
    env: 'EDGE_WORKERS',
    flag: 'workers',
    about: 'threads that serve, all on the same counters; unset: one per core that this process may use',
    read: readWorkers,
  },
  stateFile: {
    env: 'EDGE_STATE_FILE',
    flag: 'state-file',
    about: 'file that keeps the counters over a restart; saved every 5 seconds and at shutdown',
    read: readAny,
  },
  decisionLog: {
    env: 'EDGE_DECISION_LOG',
    flag: 'decision-log',
    about: 'file that gets a line for each decided request, with what rules read of it, for edge replay; unset: none',
    read: readAny,
  },
  gatewayHints: {
    env: 'EDGE_GATEWAY_HINTS',
    flag: 'gateway-hints',
    fallback: 'off',
    about: 'whether X-Edge-Prompt-Tokens, X-Edge-Max-Tokens and X-Edge-Model count: on only behind a gateway that clears what clients send',
    read: (text) => readChoice(text!, SWITCH) === 'on',
  },
  reservationSecret: {
    env: 'EDGE_RESERVATION_SECRET',
    about: 'secret of reservations, the same on all instances of a fleet, so that any of them can settle what another took',
    read: readLongSecret,
  },
  redis: {
    env: 'EDGE_REDIS_URL',
    about: 'counters in Redis or Valkey, shared by a fleet: redis://, rediss://, redis+sentinel:// or a list of cluster nodes',
    read: readRedisAddress,
  },
  redisPrefix: {
    env: 'EDGE_REDIS_PREFIX',
    flag: 'redis-prefix',
    fallback: 'edge:',
    about: 'prefix of all keys in Redis',
    read: (text) => readRedisPrefix(text!),
  },
  redisMode: {
    env: 'EDGE_REDIS_MODE',
    flag: 'redis-mode',
    fallback: 'exact',
    about: 'exact calls Redis for every decision; leased serves frequent callers from pre-fetched tokens',
    read: (text) => readChoice(text!, REDIS_MODES),
  },
  redisLeaseMs: {
    env: 'EDGE_REDIS_LEASE_MS',
    flag: 'redis-lease-ms',
    fallback: '1000',
    about: 'how long pre-fetched tokens are valid',
    read: (text) => readDurationMs(text!, MIN_LEASE_MS, MAX_REDIS_MS),
  },
  redisTimeoutMs: {
    env: 'EDGE_REDIS_TIMEOUT_MS',
    flag: 'redis-timeout-ms',
    fallback: '50',
    about: 'how long a decision waits for Redis',
    read: (text) => readDurationMs(text!, 1, MAX_REDIS_MS),
  },
  redisFailureMode: {
    env: 'EDGE_REDIS_FAILURE_MODE',
    flag: 'redis-failure-mode',
    fallback: 'local',
    about: 'while Redis is unreachable: local (counters of this instance), open (allow) or closed (503)',
    read: (text) => readChoice(text!, REDIS_FAILURE_MODES),
  },
  geoipFile: {
    env: 'EDGE_GEOIP_FILE',
    flag: 'geoip-file',
    about: 'custom MMDB for ip:country; replaces the bundled one',
    read: readAny,
  },
  ipTypeFile: { env: 'EDGE_IP_TYPE_FILE', flag: 'ip-type-file', about: 'list for ip:type, one "CIDR,type" per line', read: readAny },
  torExitsFile: {
    env: 'EDGE_TOR_EXITS_FILE',
    flag: 'tor-exits-file',
    about: 'list of Tor exit addresses for ip:tor, one per line',
    read: readAny,
  },
  keepAliveMs: {
    env: 'EDGE_KEEPALIVE_MS',
    flag: 'keepalive-ms',
    fallback: '75000',
    about: 'how long an idle connection stays open',
    read: (text) => readDurationMs(text!, 1),
  },
  headersTimeoutMs: {
    env: 'EDGE_HEADERS_TIMEOUT_MS',
    flag: 'headers-timeout-ms',
    fallback: '60000',
    about: 'how long the headers of a request may take',
    read: (text) => readDurationMs(text!, 1),
  },
  requestTimeoutMs: {
    env: 'EDGE_REQUEST_TIMEOUT_MS',
    flag: 'request-timeout-ms',
    fallback: '300000',
    about: 'how long a whole request may take; does not apply to requests that reverse_proxy forwards',
    read: (text) => readDurationMs(text!, 1),
  },
  drainMs: {
    env: 'EDGE_DRAIN_MS',
    flag: 'drain-ms',
    fallback: '0',
    about: 'how long to keep serving after SIGTERM while readiness fails',
    read: (text) => readDurationMs(text!),
  },
  shutdownMs: {
    env: 'EDGE_SHUTDOWN_MS',
    flag: 'shutdown-ms',
    fallback: '30000',
    about: 'how long requests in flight in reverse_proxy may take to finish after that',
    read: (text) => readDurationMs(text!),
  },
} satisfies Record<string, Setting<unknown>>
