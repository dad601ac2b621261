import { z } from 'zod'
import { parseAddress, subjectText } from '../address.ts'
import { type DescriptorKey, parseDescriptorKey } from './descriptor-key.ts'
import { isPrefixPattern, Patterns } from './patterns.ts'
import { descriptorKey } from './schema-parts.ts'

const PATTERN = 'a text: the whole value, or a prefix that ends in *'
const MAX_PATTERN_CHARACTERS = 8192
/** Each is compared in turn; whole values are looked up. */
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

export const ruleMatch = z
  .union(
    [
      z.literal('else'),
      z
        .record(descriptorKey, patterns, { error: MATCH })
        .refine((match) => Object.keys(match).length > 0, { error: 'at least one key (leave `match` out to cover everybody)' })
        .check(checkAgainstKeys)
        .meta({ minProperties: 1 }),
    ],
    { error: MATCH },
  )
  .meta({
    description:
      'The rule applies only where every key has a value that one of its patterns covers. "else": where no other rule of the policy with a match applies.',
  })

type MatchObject = Exclude<z.output<typeof ruleMatch>, 'else'>

/** A condition of a rule. */
export interface KeyMatch {
  readonly key: DescriptorKey
  readonly patterns: Patterns
}

export function compileMatch(match: MatchObject): KeyMatch[] {
  return Object.entries(match).map(([text, given]) => {
    const key = parseDescriptorKey(text)!
    return { key, patterns: new Patterns(listOf(given).map((one) => valueForm(key, one))) }
  })
}

/** Patterns that can never match: the values of these keys have few forms. */
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

function ipProblem(fact: (DescriptorKey & { kind: 'ip' })['fact'], text: string): string | undefined {
  if (fact === 'address' && addressForm(text) === undefined) return 'an IP address, an IPv6 network of /64, or a prefix such as 192.0.2.*'
  if (fact === 'country' && !/^[A-Z]{2}$/.test(text)) return 'two upper-case letters, such as DE'
  if (fact === 'tor' && text !== 'true' && text !== 'false') return '"true" or "false"'
  return undefined
}

/** A pattern as the key's values are written. */
function valueForm(key: DescriptorKey, text: string): string {
  return key.kind === 'ip' && key.fact === 'address' && !isPrefixPattern(text) ? addressForm(text)! : text
}

/** IPv6 addresses are known by their network. */
function addressForm(text: string): string | undefined {
  const address = parseAddress(text.replace(/\/64$/, ''))
  return address === undefined || (text.endsWith('/64') && !address.isV6) ? undefined : subjectText(address)
}

function listOf(given: string | readonly string[]): readonly string[] {
  return typeof given === 'string' ? [given] : given
}
