// The bundles of the benchmarks.

const NEVER_EMPTY = 1_000_000_000

export function rule(name, keys, burst = NEVER_EMPTY, tokensPerSecond = 1) {
  return { name, limit_keys: keys, algorithm: 'token_bucket', algorithm_config: { tokens_per_second: tokensPerSecond, burst } }
}

export function policy(id, pathPrefix, rules) {
  return { id, spec: { selector: { pathPrefix }, rules } }
}

/** One rule by a header. */
export function oneRule(burst) {
  return [rule('per-key', ['header:x-api-key'], burst)]
}

/** Five rules, three of them by claims. */
export function fiveRules(burstOf = () => undefined) {
  return [
    ['per-key', ['header:x-api-key']],
    ['subject', ['jwt:sub']],
    ['tenant', ['jwt:tenant']],
    ['plan', ['jwt:tenant', 'jwt:plan']],
    ['all', []],
  ].map(([name, keys]) => rule(name, keys, burstOf(name)))
}

/** What `Authorization` says for them: claims as they are in practice, a signature that nobody checks. */
export function bearer() {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { sub: 'user-4711', tenant: 'acme', plan: 'gold', region: 'eu', iat: 1_700_000_000 }
  // As 256 bytes end: the last character has no bit set that stands for nothing.
  return `Bearer ${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${'s'.repeat(341)}Q`
}
