import type { KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { posix } from 'node:path'
import { readPublicKeys } from '../bundle/signature.ts'
import { AllowedHosts, readAllowedHosts } from '../outbound/allowed-hosts.ts'
import { TrustedProxies } from '../request/client-address.ts'
import { parseRedisAddress, type RedisAddress } from '../store/redis/link/redis-address.ts'

/** One setting: what it is called, and how its value is read. */
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

/** The message completes the sentence "EDGE_X: expected …". */
export class BadValue extends Error {}

export function readAny(text: string | undefined): string | undefined {
  return text || undefined
}

/** A header's value has no white space at its ends, so such a secret could never be sent. The message must not show the secret. */
export function readSecret(text: string | undefined): string | undefined {
  if (text !== undefined && text !== text.trim()) throw new BadValue('a secret without leading or trailing white space')
  return text || undefined
}

const LONG_SECRET_CHARACTERS = 32

/** Whoever guesses this secret can give back what others took. The message must not show it. */
export function readLongSecret(text: string | undefined): string | undefined {
  if (text !== undefined && [...text].length < LONG_SECRET_CHARACTERS) {
    throw new BadValue(`a secret of at least ${LONG_SECRET_CHARACTERS} characters; create one with openssl rand -base64 32`)
  }
  return text
}

export function readPort(text: string): number {
  if (!isPort(text)) throw badPort('a port from 0 to 65535', text)
  return Number(text)
}

export function readPortOrOff(text: string): number | undefined {
  if (text === 'off') return undefined
  if (!isPort(text)) throw badPort('a port from 0 to 65535, or off', text)
  return Number(text)
}

/** Kubernetes gives containers such a variable for each Service of their namespace: EDGE_PORT for a Service named `edge`. */
function badPort(expected: string, text: string): BadValue {
  const { message } = bad(expected, text)
  return new BadValue(isServiceAddress(text) ? `${message}; Kubernetes sets it for a Service: set enableServiceLinks: false` : message)
}

/** Whether the value is one in which Kubernetes describes a Service. */
export function isServiceAddress(text: string): boolean {
  return /^(?:tcp|udp|sctp):\/\//.test(text)
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65535
}

/** sockaddr_un has 108 bytes on Linux, and the last one is 0. Node truncates a longer path. */
const MAX_SOCKET_PATH_BYTES = 107

export function readSocketPath(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_SOCKET_PATH_BYTES) throw bad(`the path of a unix socket, at most ${MAX_SOCKET_PATH_BYTES} bytes (this is ${bytes})`, text)
  if (text.endsWith('/')) throw bad('the path of a unix socket, with the name of its file', text)
  return text
}

export function readSocketMode(text: string): number {
  if (!/^0?[0-7]{3}$/.test(text)) throw bad('permissions in octal, such as 0660', text)
  return Number.parseInt(text, 8)
}

export function readHost(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\w.:%-]+$/.test(text)) throw bad('a host name or an address, without a port', text)
  return text
}

/** More certificates than an instance serves; each takes memory in every worker. */
const MAX_FILES = 100

/** The value of a file's name may hold anything but a comma. */
export function readFilePaths(text: string | undefined): readonly string[] {
  if (text === undefined) return []
  const paths = text.split(',').map((path) => path.trim())
  if (paths.length > MAX_FILES) throw new BadValue(`at most ${MAX_FILES} files, got ${paths.length}`)
  if (paths.includes('')) throw bad('paths of files, separated by single commas', text)
  return paths
}

/** The listeners that can speak TLS. */
const TLS_LISTENERS = ['main', 'grpc', 'admin'] as const

export function readTlsListeners(text: string): readonly (typeof TLS_LISTENERS)[number][] {
  const names = text.split(',').map((name) => name.trim())
  if (names.some((name) => !(TLS_LISTENERS as readonly string[]).includes(name))) {
    throw bad(`some of ${TLS_LISTENERS.join(', ')}, separated by commas`, text)
  }
  return TLS_LISTENERS.filter((name) => names.includes(name))
}

export function readChoice<Choice extends string>(text: string, choices: readonly Choice[]): Choice {
  if (!(choices as readonly string[]).includes(text)) throw bad(`one of ${choices.join(', ')}`, text)
  return text as Choice
}

export function readSwitch(text: string): boolean {
  return readChoice(text, ['on', 'off']) === 'on'
}

/** The value is not repeated in the message: URLs may carry passwords. */
export function readBackendUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = readHttpUrl(text)
  if (`${url.username}${url.password}${url.search}${url.hash}` !== '') throw new BadValue('a URL without user, password, query or fragment')
  return url
}

/** A query is allowed, because some sources are reached by a pre-signed link. */
export function readConfigUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = readHttpUrl(text)
  if (`${url.username}${url.password}${url.hash}` !== '') {
    throw new BadValue('a URL without user, password or fragment; put a token into EDGE_CONFIG_TOKEN')
  }
  return url
}

function readHttpUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined && /^https?:\/\//i.test(text)) throw new BadValue('a URL with a valid host, and a port up to 65535')
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new BadValue('a URL that starts with http:// or https://')
  return url
}

/** Accepts what a header can carry, which is more than RFC 6750 allows. */
export function readToken(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\x21-\x7e]*$/.test(text)) throw new BadValue('a token of visible ASCII characters')
  return text || undefined
}

/** Whoever guesses this token can lift every limit. The message must not show it. */
export function readAdminToken(text: string | undefined): string | undefined {
  if (text !== undefined && !/^[\x21-\x7e]{32,}$/.test(text)) {
    throw new BadValue(`a token of at least ${LONG_SECRET_CHARACTERS} visible ASCII characters; create one with openssl rand -base64 32`)
  }
  return text
}

/** A query is allowed, because some receivers are identified by it. The value is not repeated in the message. */
export function readEventsUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = readHttpUrl(text)
  if (`${url.username}${url.password}${url.hash}` !== '') throw new BadValue('a URL without user, password or fragment')
  return url
}

/** Refuses credentials in the URL, because it may be given on a command line, and command lines are public. */
export function readOtlpUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined
  const url = readHttpUrl(text)
  if (`${url.username}${url.password}${url.search}${url.hash}` !== '') {
    throw new BadValue('a URL without user, password, query or fragment; put credentials into OTEL_EXPORTER_OTLP_HEADERS')
  }
  if (/\/v1\/traces\/*$/.test(url.pathname)) throw new BadValue('a URL without /v1/traces at its end, because edge appends it')
  return url
}

const MIN_EVENTS_SECRET_BYTES = 24
const EVENTS_SECRET_PREFIX = 'whsec_'

/** Reads the bytes of a key in the form of Standard Webhooks. The message must not show them. */
export function readEventsSecret(text: string | undefined): Buffer | undefined {
  if (text === undefined) return undefined
  const base64 = text.startsWith(EVENTS_SECRET_PREFIX) ? text.slice(EVENTS_SECRET_PREFIX.length) : ''
  const key = /^[A-Za-z0-9+/]+={0,2}$/.test(base64) ? Buffer.from(base64, 'base64') : Buffer.alloc(0)
  if (key.length < MIN_EVENTS_SECRET_BYTES) {
    throw new BadValue(
      `${EVENTS_SECRET_PREFIX} and at least ${MIN_EVENTS_SECRET_BYTES} bytes in base64; create them with openssl rand -base64 32`,
    )
  }
  return key
}

/** The value is not repeated in the message: it might be the private key by mistake. */
export function readKeys(text: string | undefined): readonly KeyObject[] {
  if (text === undefined) return []
  const keys = readPublicKeys(text)
  if (keys === undefined) throw new BadValue('an Ed25519 public key, as edge keygen prints it or as PEM; separate several with commas')
  return keys
}

export function readSeconds(text: string, least: number, most: number): number {
  const isInRange = Number(text) >= least && Number(text) <= most
  if (!/^\d{1,5}(?:\.\d{1,3})?$/.test(text) || !isInRange) throw bad(`a number of seconds from ${least} to ${most}`, text)
  return Number(text)
}

export function readShare(text: string): number {
  if (!/^(?:0|1|0?\.\d{1,9}|[01]\.0{1,9})$/.test(text)) throw bad('a number from 0 to 1, such as 0.01', text)
  return Number(text)
}

export function readTrustedProxies(text: string): TrustedProxies {
  const badEntries: string[] = []
  const proxies = new TrustedProxies(text, (entry) => badEntries.push(entry))
  if (badEntries.length > 0) {
    throw bad('CIDRs, addresses or the words loopback, linklocal, uniquelocal, separated by commas', badEntries.join(', '))
  }
  return proxies
}

export function readBackendHosts(text: string | undefined): AllowedHosts | undefined {
  if (text === undefined) return undefined
  const hosts = readAllowedHosts(text)
  if (hosts instanceof AllowedHosts) return hosts
  throw bad('hosts separated by commas, such as login.example.com, *.example.com or idp.internal:8443', hosts.badPattern)
}

/** The value is not repeated in the message: it may carry passwords. */
export function readRedisAddress(text: string | undefined): RedisAddress | undefined {
  if (text === undefined) return undefined
  try {
    return parseRedisAddress(text)
  } catch (error) {
    throw new BadValue((error as Error).message)
  }
}

export function readRedisPrefix(text: string): string {
  if (!/^[!-~]{1,64}$/.test(text)) throw bad('1 to 64 printable ASCII characters without white space', text)
  return text
}

const MAX_WORKERS = 254

export function readWorkers(text: string | undefined): number {
  if (text === undefined) return Math.min(availableCores(), MAX_WORKERS)
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > MAX_WORKERS) throw bad(`a number of threads from 1 to ${MAX_WORKERS}`, text)
  return count
}

export function readKeyCount(text: string): number {
  if (!/^\d{1,8}$/.test(text) || Number(text) < 1 || Number(text) > MAX_KEYS) throw bad(`a number of keys from 1 to ${MAX_KEYS}`, text)
  return Number(text)
}

const MAX_KEYS = 10_000_000

export function readDays(text: string): number {
  if (!/^\d{1,4}$/.test(text) || Number(text) < 1 || Number(text) > MAX_DAYS) throw bad(`a number of days from 1 to ${MAX_DAYS}`, text)
  return Number(text)
}

const MAX_DAYS = 3660

export function readWaiting(text: string): number {
  if (!/^\d{1,6}$/.test(text) || Number(text) > MAX_WAITING) throw bad(`a number of requests from 0 to ${MAX_WAITING}`, text)
  return Number(text)
}

/** Each of them holds a connection, and a decision looks at all that stand in its lines. */
const MAX_WAITING = 100_000

export function readConnections(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,7}$/.test(text) || Number(text) < 1) throw bad('a number of connections, at least 1', text)
  return Number(text)
}

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 }

export function readSize(text: string, least: number, most: number): number {
  const [, digits, unit] = /^(\d{1,15})([kmg]?)b?$/i.exec(text) ?? []
  const bytes = digits === undefined ? Number.NaN : Number(digits) * UNITS[unit!.toLowerCase()]!
  if (!(bytes >= least && bytes <= most)) throw bad(`a size from ${least} to ${sizeText(most)} bytes, such as 64m`, text)
  return bytes
}

function sizeText(bytes: number): string {
  return bytes >= UNITS['g']! ? `${bytes / UNITS['g']!}g` : `${bytes / UNITS['m']!}m`
}

// The longest delay that setTimeout accepts.
const MAX_DURATION_MS = 2 ** 31 - 1

export function readDurationMs(text: string, least = 0, most = MAX_DURATION_MS): number {
  const isInRange = Number(text) >= least && Number(text) <= most
  if (!/^\d{1,10}$/.test(text) || !isInRange) {
    throw bad(`a whole number of milliseconds from ${least}${most < MAX_DURATION_MS ? ` to ${most}` : ''}`, text)
  }
  return Number(text)
}

function bad(expected: string, text: string): BadValue {
  return new BadValue(`${expected}, got ${JSON.stringify(text)}`)
}

type ReadFile = (path: string) => string

const CGROUPS = '/sys/fs/cgroup'

/**
 * Returns how many threads can really run at once: the cores that the process may use, or fewer if its container has a quota
 * of CPU time. More threads than that only take turns, and are paused in mid-work when the quota is used up.
 */
export function availableCores(readFile: ReadFile = (path) => readFileSync(path, 'utf8'), allowedCores = availableParallelism()): number {
  return Math.max(1, Math.min(allowedCores, Math.floor(quotaCores(readFile))))
}

/** Returns the smallest quota, in cores, of all control groups that the process is in. A quota that cannot be read sets no limit. */
function quotaCores(readFile: ReadFile): number {
  let smallest = Number.POSITIVE_INFINITY
  for (const line of (readOrNothing(readFile, '/proc/self/cgroup') ?? '').split('\n')) {
    const [, id, controllers, group] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? []
    if (group === undefined) continue
    if (id === '0' && controllers === '') {
      for (const folder of foldersUpFrom(CGROUPS, group)) smallest = Math.min(smallest, quotaV2(readFile, folder))
    } else if (controllers!.split(',').includes('cpu')) {
      for (const mount of new Set(['cpu', controllers!])) {
        for (const folder of foldersUpFrom(`${CGROUPS}/${mount}`, group)) smallest = Math.min(smallest, quotaV1(readFile, folder))
      }
    }
  }
  return smallest
}

/** Returns the group's folder and all above it: a container may find its own group at the top of the mount, but see its path as on the host. */
function foldersUpFrom(mount: string, group: string): string[] {
  const folders = [mount]
  let folder = mount
  // A group outside of what the container may see begins with `..`; resolved against the root, that is the top.
  for (const name of posix.resolve('/', group).split('/').filter(Boolean)) {
    folder = `${folder}/${name}`
    folders.push(folder)
  }
  return folders
}

/** Reads "max 100000" or "150000 100000": the CPU time in each period, and the period, in microseconds. */
function quotaV2(readFile: ReadFile, folder: string): number {
  const [quota, period] = (readOrNothing(readFile, `${folder}/cpu.max`) ?? '').trim().split(' ')
  return coresOf(quota, period)
}

function quotaV1(readFile: ReadFile, folder: string): number {
  return coresOf(readOrNothing(readFile, `${folder}/cpu.cfs_quota_us`), readOrNothing(readFile, `${folder}/cpu.cfs_period_us`))
}

/** "max" and -1 set no limit. */
function coresOf(quota: string | undefined, period: string | undefined): number {
  const cores = Number(quota) / Number(period)
  return cores > 0 ? cores : Number.POSITIVE_INFINITY
}

function readOrNothing(readFile: ReadFile, path: string): string | undefined {
  try {
    return readFile(path)
  } catch {
    return undefined // no such group or no such controller
  }
}
