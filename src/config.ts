import type { KeyObject } from 'node:crypto'
import { availableCores } from './cores.ts'
import { DEFAULT_TRUSTED_PROXIES, TrustedProxies } from './request/client-address.ts'
import { readPublicKeys } from './source/signature.ts'
import { MIN_TABLE_BYTES } from './store/shared-table.ts'

/** Everything that can be set from outside, read once at the start. */
export type ServerConfig = Readonly<{ [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['read']> }>

export interface Setting<Value> {
  readonly env: string
  /** Secrets have none: command lines are public. */
  readonly flag?: string
  /** What is read when nothing is set. Undefined: the setting may be absent. */
  readonly fallback?: string
  readonly about: string
  /** Throws a BadValue that completes the sentence "EDGE_X: expected …". */
  read(text: string | undefined): Value
}

class BadValue extends Error {}

const MODES = ['decision_service', 'reverse_proxy'] as const
const BACKEND_HOSTS = ['backend', 'client'] as const
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const SETTINGS = {
  port: { env: 'EDGE_PORT', flag: 'port', fallback: '8080', about: 'port to listen on', read: (text) => readPort(text!) },
  host: { env: 'EDGE_HOST', flag: 'host', about: 'address to listen on; all interfaces when unset', read: readHost },
  mode: {
    env: 'EDGE_MODE',
    flag: 'mode',
    fallback: 'decision_service',
    about: 'decision_service answers a gateway; reverse_proxy stands before a backend itself',
    read: (text) => readChoice(text!, MODES),
  },
  backendUrl: {
    env: 'EDGE_BACKEND_URL',
    flag: 'backend-url',
    about: 'where reverse_proxy sends what it allows; required there, not read elsewhere',
    read: readBackendUrl,
  },
  backendHost: {
    env: 'EDGE_BACKEND_HOST',
    flag: 'backend-host',
    fallback: 'backend',
    about: "Host that the backend sees: backend (the URL's own) or client (what the client sent)",
    read: (text) => readChoice(text!, BACKEND_HOSTS),
  },
  backendConnectTimeoutMs: {
    env: 'EDGE_BACKEND_CONNECT_TIMEOUT_MS',
    flag: 'backend-connect-timeout-ms',
    fallback: '5000',
    about: 'how long a connection to the backend may take',
    read: (text) => readDurationMs(text!, 1),
  },
  backendHeadersTimeoutMs: {
    env: 'EDGE_BACKEND_HEADERS_TIMEOUT_MS',
    flag: 'backend-headers-timeout-ms',
    fallback: '300000',
    about: "how long the head of the backend's answer may take; 0: for ever",
    read: (text) => readDurationMs(text!),
  },
  backendIdleTimeoutMs: {
    env: 'EDGE_BACKEND_IDLE_TIMEOUT_MS',
    flag: 'backend-idle-timeout-ms',
    fallback: '300000',
    about: 'how long a body may pause in the middle, either way; 0: for ever',
    read: (text) => readDurationMs(text!),
  },
  maxBodyBytes: {
    env: 'EDGE_MAX_BODY_BYTES',
    flag: 'max-body-bytes',
    fallback: '16m',
    about: 'how much of a body is read for a token budget, such as 512k, 16m; more is refused with 413',
    read: (text) => readSize(text!, 1, MAX_BODY_BYTES),
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
    about: 'policy bundle, http or https, in place of a file',
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
    about: 'seconds between two looks at EDGE_CONFIG_URL',
    read: (text) => readSeconds(text!, 0.1, 86_400) * 1000,
  },
  configCacheFile: {
    env: 'EDGE_CONFIG_CACHE_FILE',
    flag: 'config-cache-file',
    about: 'keeps the last good bundle from EDGE_CONFIG_URL, for a start without it',
    read: readAny,
  },
  configPublicKeys: {
    env: 'EDGE_CONFIG_PUBLIC_KEY',
    flag: 'config-public-key',
    about: 'takes only bundles that this Ed25519 key signed, as edge keygen prints it; several with commas between',
    read: readKeys,
  },
  debugSessionSecret: {
    env: 'EDGE_DEBUG_SESSION_SECRET',
    about: 'opens debug sessions; their endpoints answer 404 without it',
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
    about: 'port of its own for /livez, /readyz, /metrics and the debug endpoints',
    read: (text) => (text === undefined ? undefined : readPort(text)),
  },
  trustedProxies: {
    env: 'EDGE_TRUSTED_PROXIES',
    flag: 'trusted-proxies',
    fallback: DEFAULT_TRUSTED_PROXIES,
    about: 'CIDRs that are believed about who they forward for; also the words loopback, linklocal, uniquelocal',
    read: (text) => readTrustedProxies(text!),
  },
  storeBytes: {
    env: 'EDGE_STORE_SIZE',
    flag: 'store-size',
    fallback: '64m',
    about: 'memory for counters, such as 512k, 64m, 2g; 64m hold a million callers',
    read: (text) => readSize(text!, MIN_TABLE_BYTES, MAX_STORE_BYTES),
  },
  workers: {
    env: 'EDGE_WORKERS',
    flag: 'workers',
    about: 'threads that serve, all on the same counters; unset: the cores that this process may use',
    read: readWorkers,
  },
  stateFile: {
    env: 'EDGE_STATE_FILE',
    flag: 'state-file',
    about: 'keeps the counters over a restart: saved every 5 seconds and at shutdown',
    read: readAny,
  },
  geoipFile: {
    env: 'EDGE_GEOIP_FILE',
    flag: 'geoip-file',
    about: 'MMDB for ip:country instead of the one that comes along',
    read: readAny,
  },
  ipTypeFile: { env: 'EDGE_IP_TYPE_FILE', flag: 'ip-type-file', about: 'list of "CIDR,type" lines for ip:type', read: readAny },
  torExitsFile: { env: 'EDGE_TOR_EXITS_FILE', flag: 'tor-exits-file', about: 'list of Tor exit addresses for ip:tor', read: readAny },
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
    about: 'how long the head of a request may take',
    read: (text) => readDurationMs(text!, 1),
  },
  requestTimeoutMs: {
    env: 'EDGE_REQUEST_TIMEOUT_MS',
    flag: 'request-timeout-ms',
    fallback: '300000',
    about: 'how long a whole request may take; not for what reverse_proxy passes on',
    read: (text) => readDurationMs(text!, 1),
  },
  drainMs: {
    env: 'EDGE_DRAIN_MS',
    flag: 'drain-ms',
    fallback: '0',
    about: 'how long to serve on after SIGTERM, not ready, before the listeners close',
    read: (text) => readDurationMs(text!),
  },
  shutdownMs: {
    env: 'EDGE_SHUTDOWN_MS',
    flag: 'shutdown-ms',
    fallback: '30000',
    about: 'how long open streams of reverse_proxy may take to end after that',
    read: (text) => readDurationMs(text!),
  },
} satisfies Record<string, Setting<unknown>>

export type ConfigResult =
  | { readonly ok: true; readonly config: ServerConfig }
  | { readonly ok: false; readonly problems: readonly string[] }

/** Reads flags, then the environment. An empty value counts as unset. Every bad value is reported. */
export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Record<string, string | undefined>>,
): ConfigResult {
  const problems: string[] = []
  const config: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    const fromFlag = setting.flag === undefined ? undefined : flags[setting.flag]
    const origin = fromFlag === undefined ? setting.env : `--${setting.flag}`
    try {
      config[name] = setting.read(fromFlag ?? (env[setting.env] || setting.fallback))
    } catch (error) {
      if (!(error instanceof BadValue)) throw error
      problems.push(`${origin}: expected ${error.message}`)
    }
  }
  const result = Object.freeze(config) as ServerConfig
  problems.push(...contradictions(result))
  return problems.length > 0 ? { ok: false, problems } : { ok: true, config: result }
}

function* contradictions(config: ServerConfig): Generator<string> {
  // One that was given and is bad has its own complaint.
  if (config.mode === 'reverse_proxy' && 'backendUrl' in config && config.backendUrl === undefined)
    yield 'EDGE_BACKEND_URL: expected a URL, for EDGE_MODE is reverse_proxy'
  if (config.adminPort !== undefined && config.adminPort !== 0 && config.adminPort === config.port) {
    yield `EDGE_ADMIN_PORT: expected a port other than EDGE_PORT (${config.port})`
  }
  yield* configContradictions(config)
  if (config.headersTimeoutMs > config.requestTimeoutMs) {
    yield `EDGE_HEADERS_TIMEOUT_MS: expected no more than EDGE_REQUEST_TIMEOUT_MS (${config.requestTimeoutMs}), got ${config.headersTimeoutMs}`
  }
}

function* configContradictions(config: ServerConfig): Generator<string> {
  if (config.configFile !== undefined && config.configUrl !== undefined) {
    yield 'EDGE_CONFIG_URL: expected one source of bundles, but EDGE_CONFIG_FILE is set too'
  }
  if (!('configUrl' in config) || config.configUrl !== undefined) return
  if (config.configToken !== undefined) yield 'EDGE_CONFIG_TOKEN: expected EDGE_CONFIG_URL beside it, for the token is sent there alone'
  if (config.configCacheFile !== undefined) {
    yield 'EDGE_CONFIG_CACHE_FILE: expected EDGE_CONFIG_URL beside it, for a file needs no cache'
  }
}

function bad(expected: string, text: string): BadValue {
  return new BadValue(`${expected}, got ${JSON.stringify(text)}`)
}

function readAny(text: string | undefined): string | undefined {
  return text || undefined
}

/** A header's value has no white space at its ends, so such a secret could never be sent. The message does not show it. */
function readSecret(text: string | undefined): string | undefined {
  if (text !== undefined && text !== text.trim()) throw new BadValue('a secret without white space at its ends')
  return text || undefined
}

function readPort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65535) throw bad('a port from 0 to 65535', text)
  return Number(text)
}

function readHost(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\w.:%-]+$/.test(text)) throw bad('a host name or an address without port', text)
  return text
}

function readChoice<Choice extends string>(text: string, choices: readonly Choice[]): Choice {
  if (!(choices as readonly string[]).includes(text)) throw bad(`one of ${choices.join(', ')}`, text)
  return text as Choice
}

/** The value is not repeated in the message: URLs may carry passwords. */
function readBackendUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new BadValue('a URL that starts with http:// or https://')
  if (`${url.username}${url.password}${url.search}${url.hash}` !== '') throw new BadValue('a URL without user, password, query or fragment')
  return url
}

/** A query is allowed, since some sources are reached by a link that was signed in advance. */
function readConfigUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new BadValue('a URL that starts with http:// or https://')
  if (`${url.username}${url.password}${url.hash}` !== '') {
    throw new BadValue('a URL without user, password or fragment; a token goes into EDGE_CONFIG_TOKEN')
  }
  return url
}

/** RFC 6750 allows less; this is what a header can carry. */
function readToken(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\x21-\x7e]*$/.test(text)) throw new BadValue('a token of visible ASCII characters')
  return text || undefined
}

/** The value is not repeated in the message: it might be the private key by mistake. */
function readKeys(text: string | undefined): readonly KeyObject[] {
  if (text === undefined) return []
  const keys = readPublicKeys(text)
  if (keys === undefined) throw new BadValue('an Ed25519 public key, as edge keygen prints it or as PEM; several with commas between')
  return keys
}

function readTrustedProxies(text: string): TrustedProxies {
  const badEntries: string[] = []
  const proxies = new TrustedProxies(text, (entry) => badEntries.push(entry))
  if (badEntries.length > 0) {
    throw bad('CIDRs, addresses or the words loopback, linklocal, uniquelocal, separated by commas', badEntries.join(', '))
  }
  return proxies
}

const MAX_WORKERS = 254

function readWorkers(text: string | undefined): number {
  if (text === undefined) return Math.min(availableCores(), MAX_WORKERS)
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > MAX_WORKERS) throw bad(`a number of threads from 1 to ${MAX_WORKERS}`, text)
  return count
}

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 }
const MAX_STORE_BYTES = 8 * 1024 ** 3
/** JavaScript's texts end before 512 MiB. */
const MAX_BODY_BYTES = 256 * 1024 ** 2

function readSize(text: string, least: number, most: number): number {
  const [, digits, unit] = /^(\d{1,15})([kmg]?)b?$/i.exec(text) ?? []
  const bytes = digits === undefined ? Number.NaN : Number(digits) * UNITS[unit!.toLowerCase()]!
  if (!(bytes >= least && bytes <= most)) throw bad(`a size from ${least} to ${sizeText(most)} bytes, such as 64m`, text)
  return bytes
}

function sizeText(bytes: number): string {
  return bytes >= UNITS['g']! ? `${bytes / UNITS['g']!}g` : `${bytes / UNITS['m']!}m`
}

function readSeconds(text: string, least: number, most: number): number {
  const isInRange = Number(text) >= least && Number(text) <= most
  if (!/^\d{1,5}(?:\.\d{1,3})?$/.test(text) || !isInRange) throw bad(`seconds from ${least} to ${most}`, text)
  return Number(text)
}

// setTimeout takes no more
const MAX_DURATION_MS = 2 ** 31 - 1

function readDurationMs(text: string, least = 0): number {
  const isInRange = Number(text) >= least && Number(text) <= MAX_DURATION_MS
  if (!/^\d{1,10}$/.test(text) || !isInRange) throw bad(`whole milliseconds from ${least}`, text)
  return Number(text)
}
