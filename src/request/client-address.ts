import { type Address, parseAddress } from '../text/address.ts'
import { CidrMap } from './cidr-map.ts'

const NAMED_NETWORKS: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

export const DEFAULT_TRUSTED_PROXIES = [...NAMED_NETWORKS.keys()].join(',')

/** Networks of proxies whose X-Forwarded-For header is trusted. */
export class TrustedProxies {
  readonly #networks = new CidrMap<true>()

  /** Accepts CIDRs, addresses, and the names loopback, linklocal, uniquelocal. Does not throw: calls `onBad` for each bad entry. */
  constructor(list: string = DEFAULT_TRUSTED_PROXIES, onBad: (entry: string) => void = () => {}) {
    for (const entry of list.split(',')) {
      const name = entry.trim()
      if (name === '') continue
      for (const cidr of NAMED_NETWORKS.get(name.toLowerCase()) ?? [name]) if (!this.#networks.add(cidr, true)) onBad(name)
    }
  }

  includes(address: Address): boolean {
    return this.#networks.lookup(address) === true
  }
}

/**
 * Reads X-Forwarded-For from the right, past trusted proxies, and returns the first address that is not one; if all are trusted,
 * the leftmost. An unreadable entry ends the search without a result: the entries before it cannot be trusted.
 */
export function clientAddress(forwardedFor: string | undefined, trusted: TrustedProxies): Address | undefined {
  if (forwardedFor === undefined) return undefined
  let leftmost: Address | undefined
  let end = forwardedFor.length
  while (end >= 0) {
    const comma = end === 0 ? -1 : forwardedFor.lastIndexOf(',', end - 1)
    const entry = forwardedFor.slice(comma + 1, end).trim()
    end = comma
    if (entry === '') continue // RFC 9110 5.6.1: empty list elements do not count
    const address = parseAddress(entry)
    if (address === undefined) return undefined
    if (!trusted.includes(address)) return address
    leftmost = address
  }
  return leftmost
}
