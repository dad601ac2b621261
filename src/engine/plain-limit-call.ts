import { checkedGiven } from '../costs/given.ts'
import { descriptorOf, type LimitCall, type LimitDescriptor } from './limit-call.ts'

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
