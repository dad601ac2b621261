import { type Network, parseCidr } from '../request/cidr-map.ts'
import { type Address, formatAddress, parseAddress } from '../text/address.ts'

/** `ip:address` has no more of an IPv6 address. */
const MAX_V6_BITS = 64

/** Finds the values of all networks that contain an address, by one lookup for each length of network that occurs. */
export class NetworkIndex<Value> {
  readonly #v4 = new Map<number, Map<number, Value>>()
  readonly #v6 = new Map<number, Map<bigint, Value>>()

  get(network: Network): Value | undefined {
    const { address, prefixBits } = network
    return address.isV6
      ? this.#v6.get(prefixBits)?.get(v6Key(address, prefixBits))
      : this.#v4.get(prefixBits)?.get(v4Key(address, prefixBits))
  }

  set({ address, prefixBits }: Network, value: Value): void {
    if (address.isV6) sameLength(this.#v6, prefixBits).set(v6Key(address, prefixBits), value)
    else sameLength(this.#v4, prefixBits).set(v4Key(address, prefixBits), value)
  }

  /** Calls back with the value of each network that contains the address, until one call returns true. Returns whether one did. */
  some(address: Address, isFound: (value: Value) => boolean, maxBits = MAX_V6_BITS): boolean {
    if (address.isV6) return someOf(this.#v6, address, v6Key, isFound, maxBits)
    return someOf(this.#v4, address, v4Key, isFound, maxBits)
  }
}

function sameLength<Key, Value>(byLength: Map<number, Map<Key, Value>>, bits: number): Map<Key, Value> {
  const values = byLength.get(bits) ?? new Map<Key, Value>()
  byLength.set(bits, values)
  return values
}

function someOf<Key, Value>(
  byLength: ReadonlyMap<number, ReadonlyMap<Key, Value>>,
  address: Address,
  keyOf: (address: Address, bits: number) => Key,
  isFound: (value: Value) => boolean,
  maxBits: number,
): boolean {
  for (const [bits, values] of byLength) {
    const value = bits > maxBits ? undefined : values.get(keyOf(address, bits))
    if (value !== undefined && isFound(value)) return true
  }
  return false
}

function v4Key({ words: [word] }: Address, bits: number): number {
  return masked(word, bits)
}

function v6Key({ words: [high, low] }: Address, bits: number): bigint {
  return (BigInt(masked(high, bits)) << 32n) | BigInt(masked(low, bits - 32))
}

/** Returns the first bits of a word of 32. */
function masked(word: number, bits: number): number {
  if (bits <= 0) return 0
  return bits >= 32 ? word >>> 0 : (word & (-1 << (32 - bits))) >>> 0
}

/** Returns the network of a text such as `10.0.0.0/8`; undefined if it is a single address, the /64 of one, or none at all. */
export function parseNetwork(text: string): Network | undefined {
  const network = text.includes('/') ? parseCidr(text) : undefined
  return network?.address.isV6 === true && network.prefixBits === MAX_V6_BITS ? undefined : network
}

/** Returns what is expected instead of a network that cannot be compared, or that is probably not the one that was meant. */
export function networkProblem({ address, prefixBits }: Network): string | undefined {
  if (address.isV6 && prefixBits > MAX_V6_BITS)
    return `an IPv6 network of at most /${MAX_V6_BITS}, because ip:address has no more of an address`
  const { isV6, words } = address
  const [first, ...rest] = words.map((word, i) => masked(word, prefixBits - 32 * i) | 0)
  const [second = 0, third = 0, last = 0] = isV6 ? rest : []
  const network: Address = { isV6, words: [first!, second, third, last] }
  if (network.words.every((word, i) => word >>> 0 === words[i]! >>> 0)) return undefined
  return `the first address of a network, such as ${formatAddress(network)}/${prefixBits}`
}

/** Returns the address of a value of `ip:address`. */
export function subjectAddress(value: string): Address | undefined {
  return parseAddress(value.endsWith('/64') ? value.slice(0, -'/64'.length) : value)
}
