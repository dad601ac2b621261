import { formatPath, type Problem, show } from '../../text/problem.ts'
import type { Bundle, Policy } from '../schema/bundle.ts'
import { coverageOf } from './coverage.ts'

/** Bounds the comparisons of segments and methods. Only a bundle with thousands of paths and policies needs more; its other paths go unchecked. */
const MAX_COMPARISONS = 3_000_000
const MAX_GAPS = 1000

/**
 * Finds paths that only policies with `hosts` limit. A gateway routes requests by their host, but `reverse_proxy` has one backend, and a
 * client that sends another Host reaches it without a limit. Reports one problem for each path, at the first of its policies.
 */
export function hostGaps({ policies }: Bundle): Problem[] {
  const gaps: Problem[] = []
  const open = policies
    .filter((policy) => isLimit(policy) && policy.spec.selector?.hosts === undefined)
    .map(({ spec }) => coverageOf(spec.selector))
  let left = MAX_COMPARISONS
  for (const { index, path, isExact, methods } of boundPaths(policies)) {
    left -= open.length * (path.split('/').length - 1)
    if (left < 0) break
    const covering = open.filter((policy) => policy.covers(path, isExact))
    left -= covering.length * (methods?.size ?? 1)
    if (left < 0) break
    const isCovered = (method: string): boolean => covering.some((policy) => policy.methods?.has(method) ?? true)
    if (methods === undefined ? covering.some((policy) => policy.methods === undefined) : [...methods].every(isCovered)) continue
    if (gaps.push({ path: formatPath(['policies', index, 'spec', 'selector', 'hosts']), message: messageOf(path) }) === MAX_GAPS) break
  }
  return gaps
}

function messageOf(path: string): string {
  return `in reverse_proxy, requests for ${show(path)} with any other Host reach the same backend without this limit: add a policy without hosts that limits them too, or one that blocks other hosts`
}

/** Policies for the rate limit service see no requests. */
function isLimit({ spec: { mode, selector, rules } }: Policy): boolean {
  return mode === 'enforce' && selector?.domain === undefined && rules.some(({ algorithm }) => algorithm !== 'unlimited')
}

interface BoundPath {
  /** Index of the first policy that has this path. */
  readonly index: number
  readonly path: string
  readonly isExact: boolean
  /** Methods of all policies that have this path; undefined if one of them covers all methods. */
  methods: Set<string> | undefined
}

function boundPaths(policies: readonly Policy[]): BoundPath[] {
  const found = new Map<string, BoundPath>()
  for (const [index, policy] of policies.entries()) {
    if (!isLimit(policy) || policy.spec.selector?.hosts === undefined) continue
    const { path, isExact, methods } = coverageOf(policy.spec.selector)
    const key = `${isExact} ${path}`
    const known = found.get(key)
    if (known === undefined) found.set(key, { index, path, isExact, methods: methods && new Set(methods) })
    else if (methods === undefined) known.methods = undefined
    else for (const method of methods) known.methods?.add(method)
  }
  return [...found.values()]
}
