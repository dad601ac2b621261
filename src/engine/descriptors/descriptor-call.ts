import { checkedGiven } from '../../costs/request-costs.ts'
import type { PlanRule } from '../../policy/plan.ts'
import type { StatedLimit } from '../../policy/stated-limit.ts'
import type { Decision } from '../decision.ts'

/** A call of the rate limit service: may all of this be taken? */
export interface LimitCall {
  readonly domain: string
  readonly descriptors: readonly LimitDescriptor[]
}

/** Whom to charge, and how much. */
export interface LimitDescriptor {
  /** Sorted, each once: see `descriptorOf`. */
  readonly names: readonly string[]
  /** In the order of the names. */
  readonly values: readonly string[]
  /** A whole number. 0 takes nothing, and asks whether a hit would pass. */
  readonly hits: number
  /** Whether the hits are given back instead. */
  readonly isGivenBack: boolean
}

export interface LimitResult {
  readonly decision: Decision
  /** One for each descriptor, in the order of the call; none where the decision is a refusal. */
  readonly statuses: readonly DescriptorStatus[]
}

export interface DescriptorStatus {
  readonly isOver: boolean
  /** The rule that is over, or the most constrained one; undefined where none limits the descriptor. */
  readonly rule: PlanRule | undefined
  /** Its limit; undefined for a block. */
  readonly stated: StatedLimit | undefined
  /** Whole hits; Infinity where a rule says that the descriptor is unlimited. */
  readonly remaining: number
  /** Where it is over, until it would pass; else until all of its limit is there again. */
  readonly resetMs: number
}

/**
 * A descriptor by its entries, in any order; both lists are changed. The second entry of one key gets the name `<key>#2`, and so on. Undefined where
 * an entry has such a name already, so that two have the same.
 */
export function descriptorOf(keys: string[], values: string[], hits: number, isGivenBack: boolean): LimitDescriptor | undefined {
  if (keys.length > 1) {
    sortEntries(keys, values)
    if (hasRepeats(keys)) {
      numberRepeats(keys)
      sortEntries(keys, values)
      if (hasRepeats(keys)) return undefined
    }
  }
  return { names: keys, values, hits, isGivenBack }
}

/** By key. Entries of one key stay in order. Descriptors have few entries. */
function sortEntries(keys: string[], values: string[]): void {
  for (let i = 1; i < keys.length; i++) {
    const key = keys[i]!
    const value = values[i]!
    let at = i
    for (; at > 0 && keys[at - 1]! > key; at--) {
      keys[at] = keys[at - 1]!
      values[at] = values[at - 1]!
    }
    keys[at] = key
    values[at] = value
  }
}

function hasRepeats(sorted: readonly string[]): boolean {
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) return true
  return false
}

function numberRepeats(sorted: string[]): void {
  let count = 1
  for (let i = 1, previous = sorted[0]!; i < sorted.length; i++) {
    const key = sorted[i]!
    count = key === previous ? count + 1 : 1
    if (count > 1) sorted[i] = `${key}#${count}`
    previous = key
  }
}

/** A call of the rate limit service as a plain object: may all of this be taken? */
export interface PlainLimitCall {
  readonly domain: string
  readonly descriptors: readonly PlainDescriptor[]
}

/** Whom to charge, and how much. */
export interface PlainDescriptor {
  /** As an object, or as pairs where a key comes more than once. */
  readonly entries: Readonly<Record<string, string>> | readonly (readonly [key: string, value: string])[]
  /** 1 by default. 0 takes nothing, and asks whether a hit would pass. */
  readonly hits?: number
  /** Whether the hits are given back instead. */
  readonly isGivenBack?: boolean
}

/** Throws a RangeError for hits that cannot be taken, and for entries of which two have one name. */
export function limitCallOf({ domain, descriptors }: PlainLimitCall): LimitCall {
  return { domain, descriptors: descriptors.map(plainDescriptor) }
}

function plainDescriptor({ entries, hits = 1, isGivenBack = false }: PlainDescriptor): LimitDescriptor {
  const pairs = Array.isArray(entries) ? (entries as readonly (readonly [string, string])[]) : Object.entries(entries)
  const keys = pairs.map(([key]) => key)
  const found = descriptorOf(
    keys,
    pairs.map(([, value]) => value),
    checkedGiven(hits, 'hits'),
    isGivenBack,
  )
  if (found === undefined) throw new RangeError(`entries: expected each name once, got ${keys.join(', ')}`)
  return found
}
