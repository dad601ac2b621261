import { DEFAULT_TRUSTED_PROXIES } from '../request/client-address.ts'
import {
  readAny,
  readBackendHosts,
  readBackendUrl,
  readChoice,
  readConnections,
  readDurationMs,
  readFilePaths,
  readHost,
  readKeyCount,
  readLongSecret,
  readPort,
  readPortOrOff,
  readSeconds,
  readSize,
  readSocketMode,
  readSocketPath,
  readSwitch,
  readTlsListeners,
  readTrustedProxies,
  readWaiting,
  type Setting,
} from './config-values.ts'

const MODES = ['decision_service', 'reverse_proxy'] as const
const BACKEND_HOSTS = ['backend', 'client'] as const
const CLIENT_AUTH = ['off', 'require'] as const
/** A JavaScript string holds less than 512 MiB. */
const MAX_BODY_BYTES = 256 * 1024 ** 2
const MAX_BODY_MEMORY_BYTES = 64 * 1024 ** 3

/** How gateways and clients reach the service. */
export const LISTENING_SETTINGS = {
  mode: {
    env: 'EDGE_MODE',
    flag: 'mode',
    fallback: 'decision_service',
    about: 'decision_service decides for a gateway; reverse_proxy forwards allowed requests to a backend',
    read: (text) => readChoice(text!, MODES),
  },
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
  grpcPort: {
    env: 'EDGE_GRPC_PORT',
    flag: 'grpc-port',
    about: 'port for gRPC (HTTP/2): Envoy ext_authz, rate limit service, health; decision_service only',
    read: (text) => (text === undefined ? undefined : readPort(text)),
  },
  grpcSocket: {
    env: 'EDGE_GRPC_SOCKET',
    flag: 'grpc-socket',
    about: 'path of a unix socket for gRPC, beside its port or instead of it; decision_service only',
    read: readSocketPath,
  },
  ratelimitPolicy: {
    env: 'EDGE_RATELIMIT_POLICY',
    flag: 'ratelimit-policy',
    fallback: 'off',
    about: 'whether responses tell clients the whole limit and its window in RateLimit-Policy: on or off',
    read: (text) => readSwitch(text!),
  },
} satisfies Record<string, Setting<unknown>>

/** How ports are encrypted. Unix sockets never are. */
export const TLS_SETTINGS = {
  tlsCertFiles: {
    env: 'EDGE_TLS_CERT_FILE',
    flag: 'tls-cert-file',
    about: 'certificates of TLS listeners, each with its chain, as PEM files separated by commas; the first is the default',
    read: readFilePaths,
  },
  tlsKeyFiles: {
    env: 'EDGE_TLS_KEY_FILE',
    flag: 'tls-key-file',
    about: 'private keys of these certificates, in the same order',
    read: readFilePaths,
  },
  tlsListeners: {
    env: 'EDGE_TLS_LISTENERS',
    flag: 'tls-listeners',
    fallback: 'main,grpc',
    about: 'ports that speak TLS if there is a certificate: main, grpc, admin',
    read: (text) => readTlsListeners(text!),
  },
  tlsClientCaFile: {
    env: 'EDGE_TLS_CLIENT_CA_FILE',
    flag: 'tls-client-ca-file',
    about: "authorities that issue clients' certificates, as a PEM file",
    read: readAny,
  },
  tlsClientAuth: {
    env: 'EDGE_TLS_CLIENT_AUTH',
    flag: 'tls-client-auth',
    fallback: 'off',
    about: 'require admits only clients with a certificate of EDGE_TLS_CLIENT_CA_FILE to TLS listeners',
    read: (text) => readChoice(text!, CLIENT_AUTH),
  },
} satisfies Record<string, Setting<unknown>>

/** What `reverse_proxy` forwards to, and what it reads of bodies. */
export const BACKEND_SETTINGS = {
  backendUrl: {
    env: 'EDGE_BACKEND_URL',
    flag: 'backend-url',
    about: 'backend of reverse_proxy, http or https: of all requests, or of those that no route of the bundle covers',
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
  silentMs: {
    env: 'EDGE_SILENT_SECONDS',
    flag: 'silent-seconds',
    fallback: '60',
    about: 'how long a backend may send nothing to a request, in seconds, before edge status and the page call it a problem',
    read: (text) => readSeconds(text!, 0.1, 86_400) * 1000,
  },
  backendMaxConnections: {
    env: 'EDGE_BACKEND_MAX_CONNECTIONS',
    flag: 'backend-max-connections',
    about: 'maximum number of connections to all backends, over all workers; unset: half of what the limit on open files leaves',
    read: readConnections,
  },
  backendQueueMs: {
    env: 'EDGE_BACKEND_QUEUE_MS',
    flag: 'backend-queue-ms',
    fallback: '1000',
    about: 'how long a request waits for a free backend connection before it gets 503',
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
  maxWaiting: {
    env: 'EDGE_MAX_WAITING',
    flag: 'max-waiting',
    fallback: '1000',
    about: 'how many requests may wait in each worker for rules with wait_seconds; 0: none',
    read: (text) => readWaiting(text!),
  },
} satisfies Record<string, Setting<unknown>>

/** Whom to trust, and what is known about callers and their requests. */
export const CALLERS_SETTINGS = {
  trustedProxies: {
    env: 'EDGE_TRUSTED_PROXIES',
    flag: 'trusted-proxies',
    fallback: DEFAULT_TRUSTED_PROXIES,
    about: 'proxies whose X-Forwarded-* headers are trusted: CIDRs, loopback, linklocal, uniquelocal',
    read: (text) => readTrustedProxies(text!),
  },
  gatewayHints: {
    env: 'EDGE_GATEWAY_HINTS',
    flag: 'gateway-hints',
    fallback: 'off',
    about:
      'whether to trust X-Edge-Prompt-Tokens, X-Edge-Max-Tokens and X-Edge-Model; on only behind a gateway that removes them from client requests',
    read: (text) => readSwitch(text!),
  },
  reservationSecret: {
    env: 'EDGE_RESERVATION_SECRET',
    about: 'secret that protects reservations; the same on all instances of a fleet lets each settle reservations of the others',
    read: readLongSecret,
  },
  backendHosts: {
    env: 'EDGE_BACKEND_HOSTS',
    flag: 'backend-hosts',
    about: 'where backends and key sets of a bundle may be, such as *.okta.com or idp.internal:8443; unset: the origin of EDGE_BACKEND_URL',
    read: readBackendHosts,
  },
  secretsDir: {
    env: 'EDGE_SECRETS_DIR',
    flag: 'secrets-dir',
    about: 'directory of the files that a bundle names in jwks_file or as {NAME} in a header field',
    read: readAny,
  },
  keysFile: {
    env: 'EDGE_KEYS_FILE',
    flag: 'keys-file',
    about: 'file that keeps issued keys, as digests; with Redis, the copy for a start without it',
    read: readAny,
  },
  maxKeys: {
    env: 'EDGE_MAX_KEYS',
    flag: 'max-keys',
    fallback: '1000000',
    about: 'the most issued keys, those included that ended in the last 30 days; a million take 256m of memory',
    read: (text) => readKeyCount(text!),
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
} satisfies Record<string, Setting<unknown>>

/** How long connections and requests may take, also at shutdown. */
export const TIMEOUTS_SETTINGS = {
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
    about: 'how long requests in flight in reverse_proxy may take to finish after EDGE_DRAIN_MS has passed',
    read: (text) => readDurationMs(text!),
  },
} satisfies Record<string, Setting<unknown>>
