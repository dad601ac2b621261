import { isIPv6 } from 'node:net'

/** Address and credentials of Redis or Valkey. */
export type RedisAddress = SingleAddress | SentinelAddress | ClusterAddress

export interface SingleAddress extends Access {
  readonly kind: 'single'
  readonly node: Endpoint
  readonly db: number
}

export interface SentinelAddress extends Access {
  readonly kind: 'sentinel'
  readonly sentinels: readonly Endpoint[]
  /** The master's name at the sentinels. */
  readonly name: string
  readonly db: number
  readonly sentinelUsername: string | undefined
  readonly sentinelPassword: string | undefined
}

export interface ClusterAddress extends Access {
  readonly kind: 'cluster'
  /** Nodes from which the map of the cluster can be fetched. */
  readonly nodes: readonly Endpoint[]
}

export interface Endpoint {
  readonly host: string
  readonly port: number
}

interface Access {
  readonly isTls: boolean
  readonly username: string | undefined
  readonly password: string | undefined
}

const REDIS_PORT = 6379
const SENTINEL_PORT = 26379
const SCHEMES = /^(redis|rediss)(\+sentinel|\+cluster|)$/

/** Throws an Error whose message completes "EDGE_REDIS_URL: expected …" and never repeats the text: it may carry a password. */
export function parseRedisAddress(text: string): RedisAddress {
  const [, schemeText, rest] = /^([^:/?#@]*):\/\/(.*)$/s.exec(text) ?? []
  const scheme = schemeText?.toLowerCase() ?? ''
  const [, transport, topology] = SCHEMES.exec(scheme) ?? []
  if (rest === undefined || transport === undefined) {
    throw new Error('a URL that starts with redis://, rediss://, redis+sentinel:// or redis+cluster://')
  }
  if (/[\s#]/.test(rest)) throw new Error('a URL without white space and #; in a password they are %20 and %23')
  const [list, query, ...more] = rest.split('?')
  if (more.length > 0 || query?.includes('@')) throw new Error('no ? before a host; in a password it is %3F')
  const entries = readEntries(list!, scheme, topology === '+sentinel' ? SENTINEL_PORT : REDIS_PORT)
  const endpoints = entries.map(({ endpoint }) => endpoint)
  const path = onlyOne(entries, ({ path }) => path, 'one path, after the last host') ?? ''
  const access = {
    isTls: transport === 'rediss',
    ...readUser(onlyOne(entries, ({ user }) => user, 'the same user and password for all hosts')),
  }

  if (topology === '+sentinel')
    return { kind: 'sentinel', ...access, sentinels: endpoints, ...readMaster(path), ...readSentinelUser(query) }
  if (query !== undefined) throw new Error('a URL without query parameters')
  const db = readDb(path)
  if (topology === '' && endpoints.length === 1) return { kind: 'single', ...access, node: endpoints[0]!, db }
  if (db !== 0) throw new Error('database 0 or none: a cluster has no others')
  return { kind: 'cluster', ...access, nodes: endpoints }
}

/** Returns hosts and ports for logs, and never a secret. */
export function describeRedisAddress(address: RedisAddress): string {
  switch (address.kind) {
    case 'single':
      return endpointText(address.node)
    case 'sentinel':
      return `${address.name} at sentinels ${address.sentinels.map(endpointText).join(', ')}`
    case 'cluster':
      return `cluster at ${address.nodes.map(endpointText).join(', ')}`
  }
}

export function endpointText({ host, port }: Endpoint): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

interface Entry {
  readonly endpoint: Endpoint
  readonly user: string | undefined
  readonly path: string | undefined
}

/** Each entry may repeat the scheme, the user and the path; they must not differ. */
function readEntries(list: string, scheme: string, defaultPort: number): Entry[] {
  return list.split(',').map((text, i) => {
    const at = i === 0 ? -1 : text.indexOf('://')
    if (at >= 0 && text.slice(0, at).toLowerCase() !== scheme) throw new Error('the same scheme for all hosts')
    const [authority, ...path] = (at < 0 ? text : text.slice(at + 3)).split('/')
    const parts = authority!.split('@')
    if (parts.length > 2) throw new Error('one @ before a host; in a password it is %40')
    return {
      endpoint: readEndpoint(parts.at(-1)!, defaultPort),
      user: parts.length === 2 ? parts[0] : undefined,
      path: path.join('/') || undefined,
    }
  })
}

function onlyOne(entries: readonly Entry[], part: (entry: Entry) => string | undefined, expected: string): string | undefined {
  const found = new Set(entries.map(part).filter((text) => text !== undefined))
  if (found.size > 1) throw new Error(expected)
  return [...found][0]
}

const ENDPOINT = /^(?:\[([^[\]]+)\]|([\w.-]+))(?::(\d{1,5}))?$/

function readEndpoint(text: string, defaultPort: number): Endpoint {
  if (text === '' || text.startsWith(':'))
    throw new Error('a host after :// and after each comma; in a password : is %3A, a comma is %2C and / is %2F')
  const [, ipv6, name, portText] = ENDPOINT.exec(text) ?? []
  const host = ipv6 ?? name
  if (host === undefined || (ipv6 !== undefined && !isIPv6(ipv6))) {
    throw new Error('hosts as name, name:port, 10.0.0.1:port or [::1]:port; in a password a comma is %2C and / is %2F')
  }
  const port = portText === undefined ? defaultPort : Number(portText)
  if (port < 1 || port > 65535) throw new Error('ports from 1 to 65535')
  return { host, port }
}

function readUser(text: string | undefined): { username: string | undefined; password: string | undefined } {
  if (text === undefined) return { username: undefined, password: undefined }
  const [username, password, ...more] = text.split(':')
  if (more.length > 0) throw new Error('user:password@ with one colon; in a password it is %3A')
  if (!password) throw new Error('a password after the user: user:password@ or :password@')
  return { username: decode(username!) || undefined, password: decode(password) }
}

function readMaster(path: string): { name: string; db: number } {
  const [name, db, ...more] = path.split('/')
  if (!name || more.length > 0) throw new Error("the master's name after the sentinels, as in redis+sentinel://host:26379/NAME or /NAME/0")
  return { name: decode(name), db: readDb(db ?? '') }
}

function readDb(text: string): number {
  if (!/^\d{0,5}$/.test(text)) throw new Error('a database number after the last /, such as /0')
  return Number(text)
}

function readSentinelUser(query: string | undefined): { sentinelUsername: string | undefined; sentinelPassword: string | undefined } {
  const values = new Map<string, string>()
  for (const pair of query === undefined ? [] : query.split('&')) {
    const [name, value, ...more] = pair.split('=')
    if (!/^sentinel_(username|password)$/.test(name!) || !value || more.length > 0 || values.has(name!)) {
      throw new Error('no query parameters but sentinel_username=… and sentinel_password=…, each once')
    }
    values.set(name!, decode(value))
  }
  const sentinelUsername = values.get('sentinel_username')
  const sentinelPassword = values.get('sentinel_password')
  if (sentinelUsername !== undefined && sentinelPassword === undefined) throw new Error('a sentinel_password for the sentinel_username')
  return { sentinelUsername, sentinelPassword }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new Error('% with two hex digits after it; a % itself is %25')
  }
}
