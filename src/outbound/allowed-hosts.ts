import { isHostPattern, normalizeHost } from '../policy/patterns.ts'
import { isLoopbackName, isMetadataAddress, METADATA_ADDRESS, parseAddress } from '../text/address.ts'
import { formatPath, type Problem } from '../text/problem.ts'

/** Where the process may connect to on behalf of a bundle: EDGE_BACKEND_HOSTS. */
export class AllowedHosts {
  /** Hosts with their ports, such as `login.example.com:443`; the port is empty for the default one of the scheme. */
  readonly #exact = new Set<string>()
  /** The same of `*.example.com`, under `example.com`. */
  readonly #suffixes = new Set<string>()

  /** Each pattern must be one that `readAllowedHosts` accepts. */
  constructor(patterns: Iterable<string>) {
    for (const pattern of patterns) {
      const isSuffix = pattern.startsWith('*.')
      const { host, port } = partsOf(isSuffix ? pattern.slice(2) : pattern)!
      const target = isSuffix ? this.#suffixes : this.#exact
      target.add(`${host}:${port}`)
    }
  }

  /** Covers one origin: its host and its port. */
  static ofOrigin(url: URL): AllowedHosts {
    return new AllowedHosts([`${url.hostname}:${portOf(url)}`])
  }

  /** A pattern without a port covers the default port of the URL's scheme alone. */
  cover(url: URL): boolean {
    const host = hostOf(url)
    if (host === '') return false
    const ports = url.port === '' ? ['', portOf(url)] : [url.port]
    // A network is not written as `*.0.0.1`: only names have parents.
    const parents = parseAddress(host) === undefined ? parentsOf(host) : []
    return ports.some((port) => this.#exact.has(`${host}:${port}`) || parents.some((parent) => this.#suffixes.has(`${parent}:${port}`)))
  }
}

/** Reads patterns separated by commas. Returns the bad one if there is any. */
export function readAllowedHosts(text: string): AllowedHosts | { readonly badPattern: string } {
  const patterns = text
    .split(',')
    .map((pattern) => pattern.trim())
    .filter((pattern) => pattern !== '')
  const badPattern = patterns.find((pattern) => !isHostPattern(pattern) || partsOf(pattern.replace(/^\*\./, '')) === undefined)
  return badPattern === undefined ? new AllowedHosts(patterns) : { badPattern }
}

/**
 * Says why a URL of a bundle may not be fetched, to complete "expected …"; undefined if it may. What the host's name resolves to is checked when
 * connecting, see `guardedLookup`. A query is allowed, because some identity providers choose their key set by it. Without `hosts`, any host is.
 */
export function mayFetch(text: string, hosts: AllowedHosts | undefined): string | undefined {
  // URL would drop or replace these, and a person who reads the bundle may see another host.
  if (/[\s\\\p{Cc}]/u.test(text)) return 'a URL without white space, backslashes or control characters'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) return 'a URL that starts with https://'
  if (`${url.username}${url.password}${url.hash}` !== '' || text.includes('#')) return 'a URL without user, password or fragment'
  const host = hostOf(url)
  if (host === '') return 'a URL with a host name that has no empty part'
  const address = parseAddress(host)
  if (address !== undefined && isMetadataAddress(address)) return `a host other than ${METADATA_ADDRESS}`
  if (url.protocol === 'http:' && !isLoopbackName(host)) return 'https://, because http:// is allowed to loopback addresses alone'
  return hosts && hostProblem(url, hosts)
}

/**
 * Finds backends to which the settings do not allow to connect. What else is wrong with their URLs is a problem of the bundle, whatever the settings. A
 * bundle with such a backend is refused: whoever writes bundles must not be able to send requests, or the secrets of another backend, anywhere.
 */
export function backendHostProblems(backends: readonly { readonly name: string; readonly url: string }[], hosts: AllowedHosts): Problem[] {
  return backends.flatMap(({ name, url }) => {
    const expected = hostProblem(new URL(url), hosts)
    return expected === undefined ? [] : [{ path: formatPath(['backends', name, 'url']), message: `expected ${expected}` }]
  })
}

function hostProblem(url: URL, hosts: AllowedHosts): string | undefined {
  if (hosts.cover(url)) return undefined
  return `a host that EDGE_BACKEND_HOSTS allows; add ${shownHost(hostOf(url))}${url.port === '' ? '' : `:${url.port}`} to it`
}

/** Returns the URL in a form that people may see; its query may contain a secret. */
export function shownUrl({ origin, pathname, search }: URL): string {
  return `${origin}${pathname}${search === '' ? '' : '?…'}`
}

/** In the form that is compared: URL has written addresses and names in one way already, except for the dot of the root. */
function hostOf({ hostname }: URL): string {
  return normalizeHost(hostname)
}

function partsOf(pattern: string): { readonly host: string; readonly port: string } | undefined {
  // `2130706433` and `127.1` are addresses too, and URL knows. Its port would be empty if it is the scheme's own.
  const port = /:(\d{1,5})$/.exec(pattern)?.[1]
  const url = `https://${port === undefined ? pattern : pattern.slice(0, -port.length - 1)}`
  const host = URL.canParse(url) ? hostOf(new URL(url)) : ''
  if (host === '' || Number(port ?? 1) < 1 || Number(port ?? 1) > 65535) return undefined
  return { host, port: port === undefined ? '' : String(Number(port)) }
}

function parentsOf(host: string): string[] {
  const labels = host.split('.')
  return labels.slice(1).map((_, i) => labels.slice(i + 1).join('.'))
}

function portOf({ port, protocol }: URL): string {
  if (port !== '') return port
  return protocol === 'https:' ? '443' : '80'
}

function shownHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
