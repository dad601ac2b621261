import { field, formatPath, isObject, listIn, type Path, type Problem, show } from '../../text/problem.ts'
import { KnownWords } from '../../text/suggest.ts'
import { costBudgetSurprises, priceSurprises, routedModelSurprises } from '../algorithms/cost-budget.ts'
import { fixedWindowSurprises } from '../algorithms/fixed-window.ts'
import { tokenBucketSurprises } from '../algorithms/token-bucket.ts'
import { tokenBucketLlmSurprises } from '../algorithms/token-bucket-llm.ts'
import { type DescriptorKey, type KeyKind, parseDescriptorKey } from '../descriptor-key.ts'
import { routeContradictions } from '../routes/route-problems.ts'
import { routeSurprises } from '../routes/route-warnings.ts'
import type { Bundle, Policy, Rule } from '../schema/bundle.ts'
import { MAX_TABLES, type PricesConfig } from '../schema/prices.ts'
import { chosenIdentities } from './caller-escapes.ts'
import { CallerKeys, callersContradictions } from './caller-problems.ts'
import { findEscapes } from './escapes.ts'
import { reserveProblems } from './reserve-problems.ts'
import { patternSurprises, selectorSurprises } from './selector-surprises.ts'

/** Each pair of a host and a method is an entry of the route index, and takes memory. */
const MAX_HOST_METHODS = 10_000
/** So many pairs take some 100 MB in each worker. */
const MAX_HOST_METHODS_IN_ALL = 1_000_000
/** So many segments take some 250 MB in each worker. */
const MAX_PATH_SEGMENTS_IN_ALL = 1_000_000

/** The parts of a bundle beside its policies. They may be invalid. */
interface Envelope {
  readonly prices?: unknown
  readonly callers?: unknown
  readonly backends?: unknown
  readonly routes?: unknown
  readonly usage?: unknown
}

/**
 * Finds errors that no single field shows: repeated ids, selectors that are too large, price tables that do not exist. Checks whatever is
 * readable, even if the rest is invalid.
 */
export function* findContradictions(policies: readonly unknown[], envelope: Envelope = {}): Generator<Problem> {
  const { prices, callers, usage } = envelope
  const policyIds = new Map<string, string>()
  const tables = new Set(typeof prices === 'object' && prices !== null ? Object.keys(prices) : [])
  const fewTables = new KnownWords([...tables].slice(0, MAX_TABLES))
  const callerKeys = new CallerKeys(callers)
  let [pairsInAll, segmentsInAll] = [0, 0]
  yield* callersContradictions(callers)
  yield* routeContradictions(envelope, callerKeys)
  yield* callerKeys.problemsOf(usage, ['usage'], 'labels')
  yield* labelProblems(usage)
  for (const [p, policy] of policies.entries()) {
    yield* repeatedName(policyIds, policy, 'id', ['policies', p, 'id'])
    const selector = field(field(policy, 'spec'), 'selector')
    const pairs = listIn(selector, 'hosts').length * listIn(selector, 'methods').length
    if (pairs > MAX_HOST_METHODS) {
      const message = `expected at most ${MAX_HOST_METHODS} pairs of a host and a method, got ${pairs}: split it into several policies`
      yield { path: formatPath(['policies', p, 'spec', 'selector']), message }
    }
    pairsInAll += pairs
    segmentsInAll += segmentsOf(field(selector, 'pathPrefix')) + segmentsOf(field(selector, 'pathExact'))
    for (const path of listIn(selector, 'exceptPaths')) segmentsInAll += segmentsOf(path)
    yield* domainContradictions(policy, ['policies', p])
    const ruleNames = new Map<string, string>()
    const rules = listIn(field(policy, 'spec'), 'rules')
    yield* repeatedElse(rules, ['policies', p, 'spec', 'rules'])
    for (const [r, rule] of rules.entries()) {
      yield* repeatedName(ruleNames, rule, 'name', ['policies', p, 'spec', 'rules', r, 'name'])
      yield* reserveProblems(rule, ['policies', p, 'spec', 'rules', r])
      if (field(selector, 'domain') === undefined) yield* callerKeys.problemsOf(rule, ['policies', p, 'spec', 'rules', r])
      yield* unknownTable(rule, tables, fewTables, ['policies', p, 'spec', 'rules', r, 'algorithm_config', 'prices'])
    }
  }
  if (pairsInAll > MAX_HOST_METHODS_IN_ALL) {
    const message = `expected at most ${MAX_HOST_METHODS_IN_ALL} pairs of a host and a method in all selectors, got ${pairsInAll}`
    yield { path: 'policies', message }
  }
  if (segmentsInAll > MAX_PATH_SEGMENTS_IN_ALL) {
    const message = `expected at most ${MAX_PATH_SEGMENTS_IN_ALL} segments in the paths of all selectors, got ${segmentsInAll}`
    yield { path: 'policies', message }
  }
}

/** Finds valid settings with surprising effects: paths that match nothing, budgets that can never cover a single request. */
export function* findSurprises(bundle: Bundle): Generator<Problem> {
  for (const { path, message } of priceSurprises(bundle.prices ?? {})) yield { path: formatPath(['prices', ...path]), message }
  yield* routedModelSurprises(bundle)
  for (const [p, policy] of bundle.policies.entries()) {
    const { selector = {}, rules } = policy.spec
    yield* selectorSurprises(selector, 'policy', ['policies', p, 'spec', 'selector'])
    yield* matchSurprises(policy.spec, bundle.callers?.jwt !== undefined, ['policies', p, 'spec', 'rules'])
    // These warnings are about what a request takes, and calls of the rate limit service set that themselves.
    if (selector.domain !== undefined) continue
    for (const [r, rule] of rules.entries()) {
      const path = formatPath(['policies', p, 'spec', 'rules', r, 'algorithm_config'])
      for (const message of surprisesOf(rule, bundle.prices ?? {})) yield { path, message }
      for (const at of anthropicKeys(rule)) yield { path: formatPath(['policies', p, 'spec', 'rules', r, at]), message: ANTHROPIC_KEYS }
      if (refusesOnlySockets(rule, policy.spec)) yield { path, message: REFUSED_SOCKETS }
    }
  }
  yield* routeSurprises(bundle)
  yield* findEscapes(bundle.policies, bundle.callers)
  yield* chosenIdentities(bundle)
}

function surprisesOf(rule: Rule, prices: PricesConfig): Iterable<string> {
  switch (rule.algorithm) {
    case 'token_bucket':
      return tokenBucketSurprises(rule.algorithm_config)
    case 'fixed_window':
      return fixedWindowSurprises(rule.algorithm_config)
    case 'token_bucket_llm':
      return tokenBucketLlmSurprises(rule.algorithm_config)
    case 'cost_budget':
      return costBudgetSurprises(rule.algorithm_config, prices)
    case 'concurrency':
    case 'unlimited':
    case 'block':
      return []
  }
}

const ANTHROPIC_KEYS =
  "Anthropic's SDKs send their key as Authorization: Bearer, other clients as x-api-key: llm:key reads it wherever a client sends it"

/** Yields where a rule of tokens or money reads a caller's key in one of the two spellings that clients of Anthropic have for it. */
function* anthropicKeys({ algorithm, limit_keys: keys, match }: Rule): Generator<'limit_keys' | 'match'> {
  if (algorithm !== 'token_bucket_llm' && algorithm !== 'cost_budget') return
  const isOne = (text: string): boolean => parseDescriptorKey(text)!.text === 'header:x-api-key'
  if (keys.some(isOne)) yield 'limit_keys'
  if (typeof match === 'object' && Object.keys(match).some(isOne)) yield 'match'
}

const REFUSED_SOCKETS =
  'in reverse_proxy, WebSockets at this path get 426, because nothing in them is counted: say websockets: reserve to let them through, or refuse if that is meant'

const SOCKET_PATH = /[./:](?:realtime|live|ws|bidiGenerate\w*)\/?$/i

/** Whether the rule is about a path that only WebSockets use, and does not say what becomes of them. */
function refusesOnlySockets(rule: Rule, { mode, selector = {} }: Policy['spec']): boolean {
  const path = selector.pathExact ?? selector.pathPrefix ?? ''
  const isSilent =
    (rule.algorithm === 'token_bucket_llm' || rule.algorithm === 'cost_budget') && rule.algorithm_config.websockets === undefined
  return isSilent && mode !== 'shadow' && SOCKET_PATH.test(path)
}

/** Finds labels that no request has a value for, and labels that would be written twice. */
function* labelProblems(usage: unknown): Generator<Problem> {
  const seen = new Map<string, string>()
  for (const [k, text] of listIn(usage, 'labels').entries()) {
    const path = formatPath(['usage', 'labels', k])
    const key = typeof text === 'string' ? parseDescriptorKey(text) : undefined
    if (key === undefined) continue
    const first = seen.get(key.text)
    if (first !== undefined) yield { path, message: `${show(text)} is already named by ${first}` }
    seen.set(key.text, path)
    if (key.kind === 'descriptor')
      yield { path, message: `expected a key of requests, got ${show(text)}: only calls of the rate limit service have descriptors` }
  }
}

function* repeatedName(seen: Map<string, string>, item: unknown, nameField: string, path: Path): Generator<Problem> {
  const name = field(item, nameField)
  if (typeof name !== 'string') return
  const text = formatPath(path)
  const first = seen.get(name)
  if (first === undefined) seen.set(name, text)
  else yield { path: text, message: `${show(name)} is already used by ${first}` }
}

function* unknownTable(rule: unknown, tables: ReadonlySet<string>, fewTables: KnownWords, path: Path): Generator<Problem> {
  const name = field(rule, 'algorithm') === 'cost_budget' ? field(field(rule, 'algorithm_config'), 'prices') : undefined
  if (typeof name !== 'string' || tables.has(name)) return
  const suggestion = fewTables.closest(name)
  const hint = suggestion === undefined ? '' : ` — did you mean ${show(suggestion)}?`
  const message = `expected the name of a table in the bundle's prices${tables.size === 0 ? ' (it has none)' : ''}, got ${show(name)}${hint}`
  yield { path: formatPath(path), message }
}

function segmentsOf(path: unknown): number {
  return typeof path === 'string' ? path.split('/').length - 1 : 0
}

/**
 * Finds settings that do not fit a policy for the rate limit service, and descriptors in a policy for requests. Checks whatever is readable,
 * even if the rest is invalid.
 */
function* domainContradictions(policy: unknown, path: Path): Generator<Problem> {
  const spec = field(policy, 'spec')
  const selector = field(spec, 'selector')
  const hasDomain = field(selector, 'domain') !== undefined
  const rules = listIn(spec, 'rules')
  const hasMatch = rules.some((rule) => isObject(field(rule, 'match')))
  yield* keyProblems(field(selector, 'descriptors'), true, [...path, 'spec', 'selector', 'descriptors'])
  for (const [r, rule] of rules.entries()) {
    const at = [...path, 'spec', 'rules', r]
    yield* keyProblems(field(rule, 'match'), hasDomain, [...at, 'match'])
    for (const [k, key] of listIn(rule, 'limit_keys').entries()) yield* keyProblem(key, hasDomain, [...at, 'limit_keys', k])
    if (!hasDomain) continue
    yield* ruleProblems(rule, at)
    if (coversNothing(rule, isObject(field(selector, 'descriptors')), hasMatch)) {
      yield { path: formatPath(at), message: 'it covers no descriptor: name the keys of one in limit_keys or match' }
    }
  }
}

function* keyProblems(match: unknown, hasDomain: boolean, path: Path): Generator<Problem> {
  if (!isObject(match)) return
  // A key without a pattern is a problem anyway, and what is in it may be a secret.
  for (const [key, patterns] of Object.entries(match)) if (patterns !== null) yield* keyProblem(key, hasDomain, [...path, key])
}

function* keyProblem(text: unknown, hasDomain: boolean, path: Path): Generator<Problem> {
  const key = typeof text === 'string' ? parseDescriptorKey(text) : undefined
  if (key === undefined || (key.kind === 'descriptor') === hasDomain) return
  const message = hasDomain
    ? `expected descriptor:<name> in a policy with a domain, got ${show(text)}: calls of the rate limit service have only descriptors`
    : `expected a selector with a domain for ${show(text)}: other requests have no descriptors`
  yield { path: formatPath(path), message }
}

/** Finds algorithms and settings that have no meaning for calls of the rate limit service. */
function* ruleProblems(rule: unknown, path: Path): Generator<Problem> {
  const algorithm = field(rule, 'algorithm')
  const refused = typeof algorithm === 'string' ? REFUSED_ALGORITHMS[algorithm] : undefined
  if (refused !== undefined) yield { path: formatPath([...path, 'algorithm']), message: `${show(algorithm)} has no domain: ${refused}` }
  if (field(rule, 'wait_seconds') !== undefined)
    yield {
      path: formatPath([...path, 'wait_seconds']),
      message: 'expected none in a policy with a domain: its calls are answered at once',
    }
  const config = field(rule, 'algorithm_config')
  for (const [name, why] of Object.entries(REFUSED_FIELDS)) {
    const value = field(config, name)
    if (refused === undefined && value !== undefined && value !== false) {
      yield { path: formatPath([...path, 'algorithm_config', name]), message: `expected none in a policy with a domain: ${why}` }
    }
  }
}

const REFUSED_ALGORITHMS: Readonly<Record<string, string | undefined>> = {
  concurrency: 'nobody reports the end of a request; use fixed_window or token_bucket',
  cost_budget: 'hits are whole numbers, not money; use fixed_window with when_over: charge',
}

const REFUSED_FIELDS: Readonly<Record<string, string>> = {
  cost: 'the call itself states how many hits it takes',
  max_completion_tokens: 'the hits of a call are its tokens',
  count: 'the hits of a call are its tokens',
  reserve: 'the hits of a call are its tokens',
  streaming: 'the hits of a call are its tokens',
  websockets: 'its calls open none',
  warn_at_percent: 'nobody is warned of calls',
  cut_streams: 'it ends no streams',
}

/** An `else` without keys of its own covers descriptors with the keys of the other rules. */
function coversNothing(rule: unknown, hasOwnKeys: boolean, hasMatch: boolean): boolean {
  if (hasOwnKeys || listIn(rule, 'limit_keys').length > 0) return false
  const match = field(rule, 'match')
  return match === undefined || (match === 'else' && !hasMatch)
}

/** `rules` may be invalid in other ways. */
function* repeatedElse(rules: readonly unknown[], path: Path): Generator<Problem> {
  let first: string | undefined
  for (const [r, rule] of rules.entries()) {
    if ((rule as { match?: unknown } | null)?.match !== 'else') continue
    const at = formatPath([...path, r, 'match'])
    if (first === undefined) first = at
    else yield { path: at, message: `expected at most one "else" in a policy; ${first} is one already` }
  }
}

/** Warns about valid matches with surprising effects, such as limits that callers can choose for themselves. */
function* matchSurprises({ mode, selector = {}, rules }: Policy['spec'], verifiesTokens: boolean, path: Path): Generator<Problem> {
  const hasMatch = rules.some(({ match }) => typeof match === 'object')
  for (const [r, rule] of rules.entries()) {
    const at = [...path, r]
    if (rule.match === 'else' && !hasMatch) {
      yield { path: formatPath([...at, 'match']), message: 'no other rule of the policy has a match: the rule applies to every request' }
    }
    if (rule.algorithm === 'unlimited' && rule.match === undefined) {
      yield { path: formatPath(at), message: 'unlimited without match has no effect: name in match whom no limit applies to' }
    }
    if (rule.algorithm === 'block' && rule.match === undefined && Object.keys(selector).length === 0) {
      yield { path: formatPath(at), message: 'a block without match and selector rejects every request: name in match whom to block' }
    }
    if (rule.algorithm === 'block' && rule.algorithm_config.cut_streams && mode === 'shadow') {
      const config = formatPath([...at, 'algorithm_config', 'cut_streams'])
      yield { path: config, message: 'a policy in shadow mode cuts no stream' }
    }
    if (rule.wait_seconds !== undefined && mode === 'shadow') {
      yield { path: formatPath([...at, 'wait_seconds']), message: 'a policy in shadow mode rejects nothing, so no request waits for it' }
    }
    if (typeof rule.match !== 'object') continue
    for (const [text, given] of Object.entries(rule.match)) {
      yield* patternSurprises(text, given, formatPath([...at, 'match', text]))
      const key = parseDescriptorKey(text)!
      if (key.kind !== 'jwt' || !verifiesTokens) yield* forgeryOf(rule, key, given, formatPath([...at, 'match', text]))
    }
  }
}

/** Whoever can choose a value can choose the limit that comes with it. A match on the presence of a limit key adds no choice: without it the rule is skipped. */
function* forgeryOf(
  { algorithm, limit_keys: keys }: Rule,
  key: DescriptorKey,
  given: string | readonly string[],
  path: string,
): Generator<Problem> {
  const remedy = REMEDIES[key.kind]
  const isPresence = given === '*' && keys.some((text) => parseDescriptorKey(text)!.text === key.text)
  if (remedy === undefined || algorithm === 'block' || isPresence) return
  const gain = algorithm === 'unlimited' ? 'escape the limits' : 'choose its limit'
  yield { path, message: `a client that sends this value itself can ${gain}: ${remedy}` }
}

/** How to keep clients from choosing a value; undefined where they cannot, or where the backend checks what it is sent. */
const REMEDIES: Readonly<Record<KeyKind, string | undefined>> = {
  bearer: undefined,
  jwt: 'the signature is not checked here, so let the gateway verify the token first, or add callers.jwt',
  header: 'let the gateway set the header, and clear what clients send; or verify callers, and match caller:<label>',
  query: 'let the gateway set the parameter, and clear what clients send; or verify callers, and match caller:<label>',
  key: undefined,
  cookie: 'let the gateway check the cookie, and clear what clients send; or verify callers, and match caller:<label>',
  path: undefined,
  context: undefined,
  caller: undefined,
  model: undefined,
  ip: undefined,
  descriptor: undefined,
}
