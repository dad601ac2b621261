import type { Network } from '../request/cidr-map.ts'
import { encodePathText, normalizePath } from '../text/path.ts'
import { NetworkIndex, subjectAddress } from './networks.ts'

/** Patterns that a descriptor's value is compared with: each is the whole value, a prefix if it ends in `*`, or a network of addresses. */
export class Patterns {
  readonly #texts = new Set<string>()
  readonly #prefixes: string[] = []
  readonly #networks: NetworkIndex<true> | undefined
  readonly networks: readonly Network[]

  constructor(patterns: Iterable<string>, networks: readonly Network[] = []) {
    this.networks = networks
    this.#networks = networks.length === 0 ? undefined : new NetworkIndex()
    for (const network of networks) this.#networks!.set(network, true)
    for (const pattern of patterns) {
      if (isPrefixPattern(pattern)) this.#prefixes.push(pattern.slice(0, -1))
      else this.#texts.add(pattern)
    }
  }

  get hasPrefixes(): boolean {
    return this.#prefixes.length > 0
  }

  /** The patterns that are whole values. */
  get texts(): Iterable<string> {
    return this.#texts
  }

  /** The prefixes, without their `*`. */
  get prefixes(): readonly string[] {
    return this.#prefixes
  }

  cover(value: string): boolean {
    if (this.#texts.has(value)) return true
    for (let i = 0; i < this.#prefixes.length; i++) if (value.startsWith(this.#prefixes[i]!)) return true
    return this.#networks !== undefined && this.#coverAddress(value, this.#networks)
  }

  /** Whether every value that the others cover is known to be covered too. */
  coverAll({ texts, prefixes, networks }: Patterns): boolean {
    for (const text of texts) if (!this.cover(text)) return false
    if (!prefixes.every((prefix) => this.#prefixes.some((own) => prefix.startsWith(own)))) return false
    return networks.every(({ address, prefixBits }) => this.#networks?.some(address, IS_TRUE, prefixBits) === true)
  }

  #coverAddress(value: string, networks: NetworkIndex<true>): boolean {
    const address = subjectAddress(value)
    return address !== undefined && networks.some(address, IS_TRUE)
  }
}

const IS_TRUE = (value: boolean): boolean => value

export function isPrefixPattern(pattern: string): boolean {
  return pattern.endsWith('*')
}

const MAX_HOST_CHARACTERS = 253

/** Returns a host in the form that is compared: lower case, without port, brackets or a trailing dot; empty if it is not a host name. */
export function normalizeHost(host: string): string {
  if (isPlain(host)) return host
  const name = host.trim().toLowerCase()
  const address = /^\[([0-9a-f:.]+)\](?::\d*)?$/.exec(name)?.[1] ?? name
  if (IPV6.test(address)) return address
  const bare = name.replace(/\.?(?::\d*)?$/, '')
  return isPlain(bare) ? bare : ''
}

// This is an approximation: an address has `::` or seven colons, so a name with two ports is not taken for one.
const IPV6 = /^(?=.*::|(?:[^:]*:){7}[^:]*$)[0-9a-f:.]{2,45}$/

/** Whether the host consists of non-empty labels of lower-case letters, digits, `-` and `_`. */
function isPlain(host: string): boolean {
  if (host.length > MAX_HOST_CHARACTERS) return false
  let isLabelStart = true
  for (let i = 0; i < host.length; i++) {
    const code = host.charCodeAt(i)
    const isInLabel = (code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39) || code === 0x2d || code === 0x5f
    if (!isInLabel && (code !== 0x2e || isLabelStart)) return false
    isLabelStart = !isInLabel
  }
  return !isLabelStart
}

/** Accepts `example.com`, `*.example.com` and `[::1]`, each with or without a port. */
export function isHostPattern(text: string): boolean {
  if (text.startsWith('[')) return /^\[[0-9A-Fa-f:.]+\](:\d{1,5})?$/.test(text)
  const name = /^(?:\*\.)?([^:]+)(?::\d{1,5})?$/.exec(text)?.[1]
  if (name === undefined || name.length > MAX_HOST_CHARACTERS) return false
  return normalizeHost(name)
    .split('.')
    .every((part) => /^[a-z0-9_-]{1,63}$/.test(part))
}

/** A tree of paths by segment; each path covers everything below it. A lookup takes time linear in the request's path, however many paths there are. */
export class PathPrefixes {
  readonly #root = newNode()

  /** Normalises the paths. A trailing slash makes no difference. */
  constructor(paths: readonly string[]) {
    for (const path of paths) {
      let node = this.#root
      for (const segment of normalizePath(encodePathText(path)).split('/')) if (segment !== '') node = childOf(node, segment)
      node.isEnd = true
    }
  }

  /** `path` must be normalised. */
  cover(path: string): boolean {
    let node: PrefixNode | undefined = this.#root
    let start = 1
    while (!node.isEnd) {
      const slash = path.indexOf('/', start)
      node = node.children.get(path.slice(start, slash < 0 ? undefined : slash))
      if (node === undefined || (slash < 0 && !node.isEnd)) return false
      start = slash + 1
    }
    return true
  }
}

interface PrefixNode {
  readonly children: Map<string, PrefixNode>
  /** Whether one of the paths ends here, and so covers everything below. */
  isEnd: boolean
}

function newNode(): PrefixNode {
  return { children: new Map(), isEnd: false }
}

function childOf({ children }: PrefixNode, segment: string): PrefixNode {
  const child = children.get(segment) ?? newNode()
  children.set(segment, child)
  return child
}
