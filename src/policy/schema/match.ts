import { z } from 'zod'
import { type DescriptorKey, parseDescriptorKey } from '../descriptor-key.ts'
import { networkProblem, parseNetwork } from '../networks.ts'
import { isPrefixPattern } from '../patterns.ts'
import { addressForm, listOf } from '../rule-match.ts'
import { descriptorKey } from './parts.ts'

const PATTERN = 'a text: the whole value, or a prefix that ends in *'
const MAX_PATTERN_CHARACTERS = 8192
/** Prefixes are compared one by one, while whole values are looked up. */
const MAX_PREFIXES = 100

const pattern = z
  .string({ error: PATTERN })
  .min(1, { error: `${PATTERN}; an empty value counts as missing and never matches` })
  .max(MAX_PATTERN_CHARACTERS, { error: `at most ${MAX_PATTERN_CHARACTERS} characters` })

const patterns = z.union(
  [
    pattern,
    z
      .array(pattern)
      .min(1, { error: 'at least one pattern (leave the key out to match every value)' })
      .refine((list) => list.filter(isPrefixPattern).length <= MAX_PREFIXES, { error: `at most ${MAX_PREFIXES} patterns that end in *` }),
  ],
  { error: `${PATTERN}; or a list of them` },
)

const MATCH = '"else", or an object of descriptor keys and patterns'

/** Returns a schema for descriptor keys and the patterns of their values. `name` is the name of the field. */
export function keyPatterns(name: string, error: string) {
  return z
    .record(descriptorKey, patterns, { error })
    .refine((match) => Object.keys(match).length > 0, { error: `at least one key (leave \`${name}\` out to cover everybody)` })
    .check(checkKeys, checkAgainstKeys)
    .meta({ minProperties: 1 })
}

export const ruleMatch = z.union([z.literal('else'), keyPatterns('match', MATCH)], { error: MATCH }).meta({
  description:
    'The rule applies only to requests in which every key has a value that fits one of its patterns. "else": only if no other rule of the policy with a match applies.',
})

/** Refuses two spellings of one header field, because a value that two lists of patterns must both cover would match next to nothing. */
function checkKeys({ value: match, issues }: z.core.ParsePayload<Record<string, string | string[]>>): void {
  const known = new Map<string, string>()
  for (const text of Object.keys(match)) {
    const key = parseDescriptorKey(text)?.text ?? text
    const first = known.get(key)
    if (first === undefined) known.set(key, text)
    else
      issues.push({ code: 'custom', message: `one list of patterns for a key; ${first} is the same one`, input: match[text], path: [text] })
  }
}

/** Refuses patterns that can never match, which is known for keys whose values have few forms. */
function checkAgainstKeys({ value: match, issues }: z.core.ParsePayload<Record<string, string | string[]>>): void {
  for (const [text, given] of Object.entries(match)) {
    const key = parseDescriptorKey(text)
    if (key?.kind !== 'ip') continue
    for (const [i, one] of listOf(given).entries()) {
      const message = isPrefixPattern(one) ? undefined : ipProblem(key.fact, one)
      if (message !== undefined) issues.push({ code: 'custom', message, input: one, path: typeof given === 'string' ? [text] : [text, i] })
    }
  }
}

function addressProblem(text: string): string | undefined {
  const network = parseNetwork(text)
  if (network !== undefined) return networkProblem(network)
  return addressForm(text) === undefined ? 'an IP address, a network such as 192.0.2.0/24, or a prefix such as 192.0.2.*' : undefined
}

const NOT_NEGATED =
  'the countries themselves, because no pattern is negated: give them a rule of their own, such as an unlimited one, and the others match: else'

function ipProblem(fact: (DescriptorKey & { kind: 'ip' })['fact'], text: string): string | undefined {
  if (fact === 'address') return addressProblem(text)
  if (fact === 'country' && text.startsWith('!')) return NOT_NEGATED
  if (fact === 'country' && !/^[A-Z]{2}$/.test(text)) return 'two upper-case letters, such as DE'
  if (fact === 'tor' && text !== 'true' && text !== 'false') return '"true" or "false"'
  return undefined
}
