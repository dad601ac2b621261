import { spelledToken } from '../request/bearer.ts'
import type { Network } from '../request/cidr-map.ts'
import { parseAddress, subjectText } from '../text/address.ts'
import { type DescriptorKey, parseDescriptorKey } from './descriptor-key.ts'
import { parseNetwork } from './networks.ts'
import { isPrefixPattern, Patterns } from './patterns.ts'

/** A condition on the value of one key. */
export interface KeyMatch {
  readonly key: DescriptorKey
  readonly patterns: Patterns
}

export function compileMatch(match: Readonly<Record<string, string | readonly string[]>>): KeyMatch[] {
  return Object.entries(match).map(([text, given]) => {
    const key = parseDescriptorKey(text)!
    return { key, patterns: patternsOf(key, listOf(given)) }
  })
}

/** Compiles the patterns of a key, in the form in which its values are written. */
function patternsOf(key: DescriptorKey, given: readonly string[]): Patterns {
  if (key.kind === 'bearer' || key.kind === 'key') return new Patterns(given.map((one) => (isPrefixPattern(one) ? one : spelledToken(one))))
  if (key.kind !== 'ip' || key.fact !== 'address') return new Patterns(given)
  const [texts, networks]: [string[], Network[]] = [[], []]
  for (const one of given) {
    const network = parseNetwork(one)
    if (network !== undefined) networks.push(network)
    else texts.push(isPrefixPattern(one) ? one : addressForm(one)!)
  }
  return new Patterns(texts, networks)
}

/** Returns an address as `ip:address` writes it, with IPv6 grouped to /64; undefined if the text is not an address. */
export function addressForm(text: string): string | undefined {
  const address = parseAddress(text.replace(/\/64$/, ''))
  return address === undefined || (text.endsWith('/64') && !address.isV6) ? undefined : subjectText(address)
}

export function listOf(given: string | readonly string[]): readonly string[] {
  return typeof given === 'string' ? [given] : given
}

/** Returns a value that an operator gave, in the form in which requests are counted; undefined if no request can have it. `key` is a `DescriptorKey.text`. */
export function countedForm(key: string, value: string): string | undefined {
  if (key === 'bearer' || key === 'llm:key') return spelledToken(value)
  return key === 'ip:address' ? addressForm(value) : value
}
