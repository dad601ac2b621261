import { quoted } from '../printable-text.ts'
import { type DescriptorKey, parseDescriptorKey } from './descriptor-key.ts'
import { formatPath, type Path, type Problem } from './problem.ts'
import type { Policy, Rule } from './schema.ts'

/** `rules` may be invalid otherwise. */
export function* repeatedElse(rules: readonly unknown[], path: Path): Generator<Problem> {
  let first: string | undefined
  for (const [r, rule] of rules.entries()) {
    if ((rule as { match?: unknown } | null)?.match !== 'else') continue
    const place = formatPath([...path, r, 'match'])
    if (first === undefined) first = place
    else yield { path: place, message: `expected at most one "else" in a policy; ${first} is one already` }
  }
}

/** Matches that are valid and will surprise: patterns that mean something else, and limits that callers choose for themselves. */
export function* matchSurprises({ mode, selector = {}, rules }: Policy['spec'], path: Path): Generator<Problem> {
  const hasMatch = rules.some(({ match }) => typeof match === 'object')
  for (const [r, rule] of rules.entries()) {
    const place = [...path, r]
    if (rule.match === 'else' && !hasMatch) {
      yield { path: formatPath([...place, 'match']), message: 'no other rule of the policy has a match: the rule applies to every request' }
    }
    if (rule.algorithm === 'unlimited' && rule.match === undefined) {
      yield { path: formatPath(place), message: 'unlimited without match has no effect: name in match whom no limit applies to' }
    }
    if (rule.algorithm === 'block' && rule.match === undefined && Object.keys(selector).length === 0) {
      yield { path: formatPath(place), message: 'a block without match and selector rejects every request: name in match whom to block' }
    }
    if (rule.algorithm === 'block' && rule.algorithm_config.cut_streams && mode === 'shadow') {
      const config = formatPath([...place, 'algorithm_config', 'cut_streams'])
      yield { path: config, message: 'a policy in shadow mode cuts no stream' }
    }
    if (typeof rule.match !== 'object') continue
    for (const [text, given] of Object.entries(rule.match)) {
      yield* patternSurprises(given, formatPath([...place, 'match', text]))
      yield* forgeryOf(rule, parseDescriptorKey(text)!, formatPath([...place, 'match', text]))
    }
  }
}

/** A pattern that means something else than it seems to. */
export function* patternSurprises(given: string | readonly string[], path: string): Generator<Problem> {
  for (const pattern of typeof given === 'string' ? [given] : given) {
    if (pattern.slice(0, -1).includes('*')) yield { path, message: `only a * at the end stands for any text: ${quoted(pattern)}` }
  }
}

/** Whoever can choose a value can choose the limit that comes with it. */
function* forgeryOf({ algorithm }: Rule, key: DescriptorKey, path: string): Generator<Problem> {
  const remedy = REMEDIES[key.text.slice(0, key.text.indexOf(':'))]
  if (remedy === undefined || algorithm === 'block') return
  const gain = algorithm === 'unlimited' ? 'escape the limits' : 'choose its limit'
  yield { path, message: `a client that sends this value itself can ${gain}: ${remedy}` }
}

const REMEDIES: Readonly<Record<string, string | undefined>> = {
  jwt: 'the signature is not checked here, so let the gateway verify the token first',
  header: 'let the gateway set the header, and clear what clients send',
  query: 'let the gateway set the parameter, and clear what clients send; or match a verified identity',
  cookie: 'let the gateway check the cookie, and clear what clients send; or match a verified identity',
}
