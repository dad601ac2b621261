import { MIN_TABLE_BYTES } from '../store/table/table-layout.ts'
import {
  readAdminToken,
  readAny,
  readChoice,
  readConfigUrl,
  readDays,
  readDurationMs,
  readEventsSecret,
  readEventsUrl,
  readHost,
  readKeys,
  readOtlpUrl,
  readPort,
  readRedisAddress,
  readRedisPrefix,
  readSeconds,
  readSecret,
  readShare,
  readSize,
  readSwitch,
  readToken,
  readWorkers,
  type Setting,
} from './config-values.ts'

const REDIS_MODES = ['exact', 'leased'] as const
const REDIS_FAILURE_MODES = ['local', 'open', 'closed'] as const
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const MAX_STORE_BYTES = 8 * 1024 ** 3
/** The longest that a decision may wait and a lease may live. */
const MAX_REDIS_MS = 60_000
/** A shorter lease costs more renewals than it saves calls. */
const MIN_LEASE_MS = 50

/** Where policies come from. */
export const BUNDLE_SETTINGS = {
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
    about: 'file that stores the last good bundle from EDGE_CONFIG_URL, for startup while that URL is unreachable',
    read: readAny,
  },
  configPublicKeys: {
    env: 'EDGE_CONFIG_PUBLIC_KEY',
    flag: 'config-public-key',
    about: 'accept only bundles signed by this Ed25519 key, as edge keygen prints it; separate several with commas',
    read: readKeys,
  },
} satisfies Record<string, Setting<unknown>>

/** Threads, and the counters that they share. */
export const COUNTERS_SETTINGS = {
  workers: {
    env: 'EDGE_WORKERS',
    flag: 'workers',
    about: 'worker threads, which share all counters; unset: one per core that this process may use',
    read: readWorkers,
  },
  storeBytes: {
    env: 'EDGE_STORE_SIZE',
    flag: 'store-size',
    fallback: '64m',
    about: 'memory for counters, such as 512k, 64m or 2g; 64m holds a million callers',
    read: (text) => readSize(text!, MIN_TABLE_BYTES, MAX_STORE_BYTES),
  },
  stateFile: {
    env: 'EDGE_STATE_FILE',
    flag: 'state-file',
    about: 'file that keeps the counters across restarts; saved every 5 seconds and at shutdown',
    read: readAny,
  },
} satisfies Record<string, Setting<unknown>>

/** Counters that a fleet shares. */
export const REDIS_SETTINGS = {
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
} satisfies Record<string, Setting<unknown>>

/** What operators use. */
export const OPERATORS_SETTINGS = {
  adminPort: {
    env: 'EDGE_ADMIN_PORT',
    flag: 'admin-port',
    about: "separate port for /livez, /readyz, /metrics, the debug endpoints, the admin API and the operators' page",
    read: (text) => (text === undefined ? undefined : readPort(text)),
  },
  adminHost: {
    env: 'EDGE_ADMIN_HOST',
    flag: 'admin-host',
    about: 'address that EDGE_ADMIN_PORT listens on, such as 127.0.0.1; unset: the same as EDGE_HOST',
    read: readHost,
  },
  adminToken: {
    env: 'EDGE_ADMIN_TOKEN',
    about: 'bearer token of the admin API on EDGE_ADMIN_PORT, at least 32 characters; without it the API and the page return 404',
    read: readAdminToken,
  },
  adminReadToken: {
    env: 'EDGE_ADMIN_READ_TOKEN',
    about: 'bearer token with which the admin API and the page can be read and nothing changed; it needs EDGE_ADMIN_TOKEN',
    read: readAdminToken,
  },
  top: {
    env: 'EDGE_TOP',
    flag: 'top',
    fallback: 'on',
    about: 'whether the admin API can list the callers that are rejected most, with their values: on or off',
    read: (text) => readSwitch(text!),
  },
  debugSessionSecret: {
    env: 'EDGE_DEBUG_SESSION_SECRET',
    about: 'secret that opens debug sessions; without it the debug endpoints return 404',
    read: readSecret,
  },
} satisfies Record<string, Setting<unknown>>

const EVENTS_FORMATS = ['json', 'slack'] as const

/** What is reported, and to whom. */
export const REPORTS_SETTINGS = {
  logLevel: {
    env: 'EDGE_LOG_LEVEL',
    flag: 'log-level',
    fallback: 'info',
    about: LOG_LEVELS.join(', '),
    read: (text) => readChoice(text!, LOG_LEVELS),
  },
  decisionLog: {
    env: 'EDGE_DECISION_LOG',
    flag: 'decision-log',
    about: 'file to log each decided request to, with what the rules read from it, for edge replay; unset: none',
    read: readAny,
  },
  usageDir: {
    env: 'EDGE_USAGE_DIR',
    flag: 'usage-dir',
    about: 'directory to log what each LLM request was charged to, for edge usage, in reverse_proxy; unset: none',
    read: readAny,
  },
  usageKeepDays: {
    env: 'EDGE_USAGE_KEEP_DAYS',
    flag: 'usage-keep-days',
    fallback: '90',
    about: 'days after which files in EDGE_USAGE_DIR are removed',
    read: (text) => readDays(text!),
  },
  eventsUrl: {
    env: 'EDGE_EVENTS_URL',
    flag: 'events-url',
    about: 'URL that events are posted to in batches, http or https, signed with EDGE_EVENTS_SECRET',
    read: readEventsUrl,
  },
  eventsSecret: {
    env: 'EDGE_EVENTS_SECRET',
    about: 'secret that signs the events posted to EDGE_EVENTS_URL: whsec_ and at least 24 bytes in base64',
    read: readEventsSecret,
  },
  eventsFormat: {
    env: 'EDGE_EVENTS_FORMAT',
    flag: 'events-format',
    fallback: 'json',
    about: 'json, or slack: messages about budgets and problems for a Slack webhook, unsigned without a secret',
    read: (text) => readChoice(text!, EVENTS_FORMATS),
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
    about: 'fraction of requests to trace (0 to 1); requests already traced by their caller are always traced',
    read: (text) => readShare(text!),
  },
} satisfies Record<string, Setting<unknown>>
