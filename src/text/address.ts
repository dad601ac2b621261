/** An IP address as four 32-bit words, most significant first; IPv4 uses only the first. */
export interface Address {
  readonly isV6: boolean
  readonly words: readonly [number, number, number, number]
}

/** Accepts ports, brackets, zone ids, and IPv4-mapped IPv6, which becomes IPv4. */
export function parseAddress(text: string): Address | undefined {
  const bare = stripPort(text.trim())
  if (bare === undefined) return undefined
  return bare.includes(':') ? parseV6(bare) : parseV4(bare)
}

/** IPv6 is grouped to /64: one client usually controls the whole network. */
export function subjectText(address: Address): string {
  if (!address.isV6) return formatV4(address.words[0])
  const [high, low] = address.words
  const groups = [high >>> 16, high & 0xffff, low >>> 16, low & 0xffff]
  return `${groups.map((group) => group.toString(16)).join(':')}::/64`
}

/** The subject of an address as a socket reports it. All that have none, such as clients of a unix socket, are one. */
export function addressSubject(address: string | undefined): string {
  const parsed = address === undefined ? undefined : parseAddress(address)
  return parsed === undefined ? 'unknown' : subjectText(parsed)
}

export function formatAddress(address: Address): string {
  if (!address.isV6) return formatV4(address.words[0])
  return address.words.map((word) => `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`).join(':')
}

/** `localhost`, or a loopback address. What the name resolves to is checked too. */
export function isLoopbackName(host: string): boolean {
  const address = parseAddress(host)
  return address === undefined ? host === 'localhost' : isLoopback(address)
}

/** 127.0.0.0/8 and ::1. */
export function isLoopback({ isV6, words: [first, second, third, last] }: Address): boolean {
  return isV6 ? first === 0 && second === 0 && third === 0 && last === 1 : first >>> 24 === 127
}

/** What `isMetadataAddress` finds, as messages call it. */
export const METADATA_ADDRESS = 'a link-local address, or one of a metadata service'

/**
 * Whether packets go to where clouds serve credentials of the machine: to its own link (169.254.0.0/16, fe80::/10), or to an address of `METADATA_V4` or
 * `METADATA_V6`, in whatever spelling leads there.
 */
export function isMetadataAddress({ isV6, words: [first, second, third, last] }: Address): boolean {
  if (!isV6) return isMetadataV4(first)
  if (first >>> 22 === 0xfe80 >>> 6 || first >>> 0 === AWS_SERVICES) return true
  if (
    METADATA_V6.some(
      (words) => words[0] === first >>> 0 && words[1] === second >>> 0 && words[2] === third >>> 0 && words[3] === last >>> 0,
    )
  )
    return true
  // RFC 3056: 6to4 has the IPv4 address in bits 16 to 47.
  if (first >>> 16 === 0x2002) return isMetadataV4(((first << 16) | (second >>> 16)) >>> 0)
  // RFC 6052, RFC 8215, RFC 4291 2.5.5.1 and RFC 2765 2.1: these end in an IPv4 address.
  const isNat64 = first === 0x0064ff9b
  const isCompatible = first === 0 && second === 0 && (third === 0 || third >>> 0 === 0xffff0000)
  return (isNat64 || isCompatible) && isMetadataV4(last)
}

/** Azure, Alibaba Cloud, and Oracle's classic cloud. The first is a public address, and reaches the machine's own host all the same. */
const METADATA_V4 = new Set(['168.63.129.16', '100.100.100.200', '192.0.0.192'].map((text) => parseV4Word(text)! >>> 0))
/** fd00:ec2::/32, which Amazon keeps for services of the machine: metadata (::254), and credentials of pods (::23). */
const AWS_SERVICES = 0xfd000ec2
/** Google, Oracle, Akamai (Linode), Scaleway, Alibaba Cloud. */
const METADATA_V6 = ['fd20:ce::254', 'fd00:c1::a9fe:a9fe', 'fd00:a9fe:a9fe::1', 'fd00:42::42', 'fd00:100::100:200'].map((text) =>
  parseV6(text)!.words.map((word) => word >>> 0),
)

function isMetadataV4(word: number): boolean {
  return word >>> 16 === 0xa9fe || METADATA_V4.has(word >>> 0)
}

function formatV4(word: number): string {
  return `${word >>> 24}.${(word >>> 16) & 0xff}.${(word >>> 8) & 0xff}.${word & 0xff}`
}

function stripPort(text: string): string | undefined {
  if (text.startsWith('[')) return /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)?.[1]
  const colon = text.indexOf(':')
  if (colon < 0 || colon !== text.lastIndexOf(':')) return text
  return /^\d{1,5}$/.test(text.slice(colon + 1)) ? text.slice(0, colon) : undefined
}

function parseV4(text: string): Address | undefined {
  const word = parseV4Word(text)
  return word === undefined ? undefined : { isV6: false, words: [word, 0, 0, 0] }
}

function parseV4Word(text: string): number | undefined {
  let word = 0
  let octet = -1
  let octets = 0
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : 0x2e
    if (code === 0x2e) {
      if (octet < 0 || ++octets > 4) return undefined
      word = (word << 8) | octet
      octet = -1
    } else if (code >= 0x30 && code <= 0x39 && octet !== 0) {
      // A leading zero is refused: some readers take it as octal.
      octet = octet < 0 ? code - 0x30 : octet * 10 + code - 0x30
      if (octet > 255) return undefined
    } else {
      return undefined
    }
  }
  return octets === 4 ? word : undefined
}

function parseV6(text: string): Address | undefined {
  const zone = text.indexOf('%')
  const halves = (zone < 0 ? text : text.slice(0, zone)).split('::')
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0]!, halves.length === 1)
  const tail = halves.length === 2 ? parseGroups(halves[1]!, true) : []
  if (head === undefined || tail === undefined) return undefined
  const missing = 8 - head.length - tail.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail]
  const word = (i: number): number => (groups[i]! << 16) | groups[i + 1]!
  // RFC 4291 2.5.5.2: ::ffff:a.b.c.d is an IPv4 address.
  if (word(0) === 0 && word(2) === 0 && word(4) === 0xffff) return { isV6: false, words: [word(6), 0, 0, 0] }
  return { isV6: true, words: [word(0), word(2), word(4), word(6)] }
}

function parseGroups(text: string, mayEndInV4: boolean): number[] | undefined {
  if (text === '') return []
  const groups: number[] = []
  const parts = text.split(':')
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16))
      continue
    }
    const word = mayEndInV4 && index === parts.length - 1 ? parseV4Word(part) : undefined
    if (word === undefined) return undefined
    groups.push(word >>> 16, word & 0xffff)
  }
  return groups
}
