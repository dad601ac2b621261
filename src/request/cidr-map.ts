import { type Address, parseAddress } from '../text/address.ts'

/** Finds the value of the most specific network that contains an address. */
export interface NetworkLookup<Value> {
  lookup(address: Address): Value | undefined
}

/** Enough for half a million unrelated IPv6 addresses. A file of 256 MiB could hold ten times as many. */
const MAX_NODES_BYTES = 1024 ** 3

/**
 * Maps networks to values; the most specific network wins. It is a binary trie over the address bits, in one typed
 * array: a lookup takes at most 32 (IPv6: 128) steps and allocates nothing.
 */
export class CidrMap<Value> implements NetworkLookup<Value> {
  #nodes = new Int32Array(3 * 64)
  #nodeCount = 3 // node 1 is the IPv4 root, node 2 the IPv6 root
  readonly #values: (Value | undefined)[] = [undefined]
  readonly #positions = new Map<Value, number>()
  readonly #maxBytes: number

  constructor(maxBytes = MAX_NODES_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Adds `10.0.0.0/8`, `fc00::/7` or a single address. Returns false for anything else. Throws if the networks take too much memory. */
  add(cidr: string, value: Value): boolean {
    const network = parseCidr(cidr)
    if (network === undefined) return false
    let node = rootOf(network.address)
    for (let i = 0; i < network.prefixBits; i++) {
      const edge = node * 3 + bitAt(network.address, i)
      const next = this.#nodes[edge] || this.#newNode()
      this.#nodes[edge] = next
      node = next
    }
    this.#nodes[node * 3 + 2] = this.#positionOf(value)
    return true
  }

  lookup(address: Address): Value | undefined {
    return this.#values[findPosition(this.#nodes, address)]
  }

  /** The nodes for `findPosition`, and the values by position. */
  get parts(): { readonly nodes: Int32Array; readonly values: readonly (Value | undefined)[] } {
    return { nodes: this.#nodes.subarray(0, this.#nodeCount * 3), values: this.#values }
  }

  #newNode(): number {
    if ((this.#nodeCount + 1) * 3 > this.#nodes.length) {
      if (this.#nodes.byteLength * 2 > this.#maxBytes) throw new Error(`its networks take more than ${this.#maxBytes >>> 20} MiB of memory`)
      const grown = new Int32Array(this.#nodes.length * 2)
      grown.set(this.#nodes)
      this.#nodes = grown
    }
    return this.#nodeCount++
  }

  #positionOf(value: Value): number {
    let position = this.#positions.get(value)
    if (position === undefined) {
      position = this.#values.push(value) - 1
      this.#positions.set(value, position)
    }
    return position
  }
}

/**
 * Returns the position of the most specific network's value. Node n is three numbers: its 0-child, its 1-child (0 = none) and its
 * value's position (0 = none).
 */
function findPosition(nodes: Int32Array, address: Address): number {
  let node = rootOf(address)
  let position = nodes[node * 3 + 2]!
  const bits = address.isV6 ? 128 : 32
  for (let i = 0; i < bits; i++) {
    node = nodes[node * 3 + bitAt(address, i)]!
    if (node === 0) break
    position = nodes[node * 3 + 2]! || position
  }
  return position
}

export interface Network {
  readonly address: Address
  readonly prefixBits: number
}

/** The longest valid CIDR has about 50 characters; splitting a line of a hundred million would exhaust memory. */
const MAX_CIDR_CHARACTERS = 64

export function parseCidr(text: string): Network | undefined {
  const cidr = text.trim()
  if (cidr.length > MAX_CIDR_CHARACTERS) return undefined
  const [host, bits, ...rest] = cidr.split('/')
  const address = /^[0-9a-fA-F.:]+$/.test(host!) && !hasPort(host!) ? parseAddress(host!) : undefined
  if (address === undefined || rest.length > 0) return undefined
  const most = address.isV6 ? 128 : 32
  if (bits === undefined) return { address, prefixBits: most }
  if (!/^\d{1,3}$/.test(bits)) return undefined
  const isMapped = !address.isV6 && host!.includes(':')
  const prefixBits = Number(bits) - (isMapped ? 96 : 0)
  return prefixBits >= 0 && prefixBits <= most ? { address, prefixBits } : undefined
}

/** `10.0.0.1:80` is not a network. */
function hasPort(host: string): boolean {
  const dot = host.indexOf('.')
  const colon = host.lastIndexOf(':')
  return dot >= 0 && dot < colon && /^\d+$/.test(host.slice(colon + 1))
}

function rootOf(address: Address): number {
  return address.isV6 ? 2 : 1
}

function bitAt(address: Address, index: number): number {
  return (address.words[index >>> 5]! >>> (31 - (index & 31))) & 1
}

/** A map of networks in shared memory. */
export interface SharedNetworks {
  /** The nodes as `findPosition` reads them. */
  readonly nodes: SharedArrayBuffer
  /** The end of each value's text as a 32-bit number, by position, and then the texts themselves in UTF-8, one after the other. */
  readonly texts: SharedArrayBuffer
}

const WORD_BYTES = 4

/** Copies a map to shared memory: its texts in small steps, its nodes in one. */
export function* shareNetworks(map: CidrMap<string>): Generator<void, SharedNetworks> {
  const { nodes, values } = map.parts
  const shared = { nodes: new SharedArrayBuffer(nodes.byteLength), texts: yield* shareTexts(values) }
  new Int32Array(shared.nodes).set(nodes)
  return shared
}

function* shareTexts(values: readonly (string | undefined)[]): Generator<void, SharedArrayBuffer> {
  const encoder = new TextEncoder()
  const texts: Uint8Array[] = []
  let size = values.length * WORD_BYTES
  for (const value of values) {
    const text = encoder.encode(value ?? '')
    texts.push(text)
    size += text.length
    yield
  }
  const buffer = new SharedArrayBuffer(size)
  const [ends, bytes] = [new Uint32Array(buffer, 0, values.length), new Uint8Array(buffer)]
  let end = ends.byteLength
  for (const [position, text] of texts.entries()) {
    bytes.set(text, end)
    end += text.length
    ends[position] = end
    yield
  }
  return buffer
}

/** A read-only map, which one thread has built for all. */
export class SharedCidrMap implements NetworkLookup<string> {
  readonly #nodes: Int32Array
  readonly #texts: SharedArrayBuffer
  /** Values decoded so far, so that a lookup decodes each only once. */
  readonly #values = new Map<number, string>()

  constructor({ nodes, texts }: SharedNetworks) {
    this.#nodes = new Int32Array(nodes)
    this.#texts = texts
  }

  lookup(address: Address): string | undefined {
    const position = findPosition(this.#nodes, address)
    return position === 0 ? undefined : (this.#values.get(position) ?? this.#decode(position))
  }

  #decode(position: number): string {
    const ends = new Uint32Array(this.#texts, 0, position + 1)
    // The bytes are copied, because a TextDecoder does not accept shared memory.
    const bytes = new Uint8Array(this.#texts).slice(ends[position - 1], ends[position])
    const value = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
    this.#values.set(position, value)
    return value
  }
}
