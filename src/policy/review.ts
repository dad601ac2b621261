import { costBudgetSurprises } from './algorithms/cost-budget.ts'
import { fixedWindowSurprises } from './algorithms/fixed-window.ts'
import { tokenBucketSurprises } from './algorithms/token-bucket.ts'
import { tokenBucketLlmSurprises } from './algorithms/token-bucket-llm.ts'
import { domainContradictions } from './domain-review.ts'
import { matchSurprises, patternSurprises, repeatedElse } from './match-review.ts'
import { encodePathText, normalizePath } from './path.ts'
import { PathPrefixes } from './path-prefixes.ts'
import { priceSurprises } from './price-tables.ts'
import { formatPath, type Path, type Problem, show } from './problem.ts'
import { MAX_TABLES, type PricesConfig } from './schema/prices.ts'
import type { Bundle, Rule, Selector } from './schema.ts'
import { KnownWords } from './suggest.ts'
import { field, listIn } from './unchecked-data.ts'

/** Each pair of a host and a method is an entry of the route index, and takes memory. */
const MAX_HOST_METHODS = 10_000
/** Some 100 MB in each worker. */
const MAX_HOST_METHODS_IN_ALL = 1_000_000
/** Some 250 MB in each worker. */
const MAX_PATH_SEGMENTS_IN_ALL = 1_000_000

/**
 * Errors that no single field shows: repeated ids, selectors that are too large, tables of prices that do not exist. Checks whatever is
 * readable.
 */
export function* findContradictions(policies: readonly unknown[], prices?: unknown): Generator<Problem> {
  const policyIds = new Map<string, string>()
  const tables = new Set(typeof prices === 'object' && prices !== null ? Object.keys(prices) : [])
  const fewTables = new KnownWords([...tables].slice(0, MAX_TABLES))
  let [pairsInAll, segmentsInAll] = [0, 0]
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

/** Valid settings that will surprise: paths that match nothing, budgets that can never cover one request. */
export function* findSurprises(bundle: Bundle): Generator<Problem> {
  for (const { table, message } of priceSurprises(bundle.prices ?? {})) yield { path: formatPath(['prices', table]), message }
  for (const [p, policy] of bundle.policies.entries()) {
    const { selector = {}, rules } = policy.spec
    yield* selectorSurprises(selector, ['policies', p, 'spec', 'selector'])
    yield* matchSurprises(policy.spec, ['policies', p, 'spec', 'rules'])
    // What a request takes, and calls of the rate limit service say that themselves.
    if (selector.domain !== undefined) continue
    for (const [r, rule] of rules.entries()) {
      const path = formatPath(['policies', p, 'spec', 'rules', r, 'algorithm_config'])
      for (const message of surprisesOf(rule, bundle.prices ?? {})) yield { path, message }
    }
  }
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

function* selectorSurprises({ pathPrefix, pathExact, exceptPaths = [], descriptors = {} }: Selector, path: Path): Generator<Problem> {
  for (const [key, given] of Object.entries(descriptors)) yield* patternSurprises(given, formatPath([...path, 'descriptors', key]))
  const paths: [Path, string | undefined][] = [
    [['pathPrefix'], pathPrefix],
    [['pathExact'], pathExact],
    ...exceptPaths.map((except, i): [Path, string] => [['exceptPaths', i], except]),
  ]
  for (const [place, text] of paths) {
    if (!text?.includes('*')) continue
    const message = 'a * in a path is a literal *; a pathPrefix covers everything below it without one'
    yield { path: formatPath([...path, ...place]), message }
  }
  const own = normalizePath(encodePathText(pathExact ?? pathPrefix ?? '/'))
  const covered = new PathPrefixes([own])
  for (const [i, except] of exceptPaths.entries()) {
    const place = formatPath([...path, 'exceptPaths', i])
    if (new PathPrefixes([except]).cover(own))
      yield { path: place, message: `the policy covers nothing: ${show(except)} excepts all of it` }
    else if (pathExact !== undefined || !covered.cover(normalizePath(encodePathText(except)))) {
      yield { path: place, message: 'it has no effect: the policy does not cover this path anyway' }
    }
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
