/** Short ways to write bundles down. */

import { policySchema } from '../../../src/policy/schema/bundle.ts'

/** All algorithms, as messages list them. */
export const ALGORITHM_NAMES = policySchema.shape.spec.shape.rules.element.options
  .map(({ shape }) => JSON.stringify(shape.algorithm.value))
  .join(', ')
  .replace(/, ([^,]*)$/, ' or $1')

export interface PolicyText {
  readonly id: string
  readonly spec: Record<string, unknown>
}

export function bundle(version: number | string, ...policies: readonly PolicyText[]): object {
  return { bundle_version: version, policies }
}

export function policy(id: string, spec: { mode?: string; selector?: object; rules: readonly object[] }): PolicyText {
  return { id, spec }
}

/** A rule that hands out `burst` and then a token every `1 / perSecond` seconds. */
export function bucketRule(name: string, keys: readonly string[], burst: number, perSecond = 1): object {
  return { name, limit_keys: keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second: perSecond, burst } }
}

/** A token_bucket rule with this configuration. */
export function rateRule(name: string, keys: readonly string[], config: object): object {
  return { name, limit_keys: keys, algorithm: 'token_bucket', algorithm_config: config }
}

/** A rule that admits what its configuration says in each window of a calendar. */
export function windowRule(name: string, keys: readonly string[], config: object): object {
  return { name, limit_keys: keys, algorithm: 'fixed_window', algorithm_config: config }
}

export function llmRule(name: string, keys: readonly string[], config: object): object {
  return { name, limit_keys: keys, algorithm: 'token_bucket_llm', algorithm_config: config }
}

/** A rule that rejects all it covers. */
export function blockRule(name: string, match?: object | 'else', config: object = {}): object {
  return { name, ...(match && { match }), algorithm: 'block', algorithm_config: config }
}

/** A rule that limits nothing. */
export function unlimitedRule(name: string, match: object | 'else'): object {
  return { name, match, algorithm: 'unlimited' }
}

/** The rule for some callers only. */
export function matching(match: object | 'else', rule: object): object {
  return { ...rule, match }
}

/** A rule that lets so many requests be in flight. */
export function concurrencyRule(name: string, keys: readonly string[], max: number, holdSeconds?: number): object {
  const hold = holdSeconds === undefined ? {} : { hold_seconds: holdSeconds }
  return { name, limit_keys: keys, algorithm: 'concurrency', algorithm_config: { max_in_flight: max, ...hold } }
}

/** A budget of money. */
export function budgetRule(name: string, keys: readonly string[], config: object): object {
  return { name, limit_keys: keys, algorithm: 'cost_budget', algorithm_config: { period: '1d', ...config } }
}

/** A bundle that is known by its one burst, as a hand writes it. */
export function burstYaml(version: number, burst: number): string {
  return `# by hand
bundle_version: ${version}
policies:
  - id: p
    spec:
      rules:
        - name: r
          limit_keys: []
          algorithm: token_bucket
          algorithm_config: { tokens_per_second: 1, burst: ${burst} }
`
}

/** The same as a program writes it. */
export function burstJson(version: number, burst: number): string {
  return JSON.stringify(bundle(version, policy('p', { rules: [bucketRule('r', [], burst)] })))
}

/** A small file in YAML that stands for a large one: so many times the same policy, with so many times the same rule. */
export function aliased(rules: number, policies: number): string {
  const rule = '{name: r, limit_keys: [], algorithm: token_bucket, algorithm_config: {tokens_per_second: 1, burst: 1}}'
  const list = (alias: string, length: number): string => `[${Array(length).fill(alias).join(', ')}]`
  return `x-r: &r ${rule}\nx-p: &p {id: p, spec: {rules: ${list('*r', rules)}}}\nbundle_version: 1\npolicies: ${list('*p', policies)}\n`
}

/** An unsigned JWT with this payload. */
export function jwt(payload: unknown): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'none' })}.${part(payload)}.c2ln`
}
