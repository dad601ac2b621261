import { deserialize, serialize } from 'node:v8'
import type { Bundle, Policy } from '../policy/schema/bundle.ts'

/** Number of items at which a piece ends. Policies, rules, hosts and methods count as items. */
const ITEMS_A_PIECE = 200

/** A valid bundle in memory that threads share, in pieces that each take little time to read. */
export interface SharedBundle {
  readonly version: Bundle['bundle_version']
  readonly policyCount: number
  /** Undefined if the bundle has no prices. */
  readonly prices: SharedArrayBuffer | undefined
  /** Undefined if the bundle does not say who is known. It is small, and cloned for each thread. */
  readonly callers: Bundle['callers']
  /** Undefined if the bundle has neither backends nor routes. */
  readonly routing: SharedArrayBuffer | undefined
  /** Undefined if the bundle does not say what the usage log contains. It is small, and cloned for each thread. */
  readonly usage: Bundle['usage']
  readonly pieces: readonly SharedArrayBuffer[]
}

export function shareBundle({ bundle_version, policies, prices, callers, backends, routes, usage }: Bundle): SharedBundle {
  const pieces: SharedArrayBuffer[] = []
  let [from, items] = [0, 0]
  for (const [index, policy] of policies.entries()) {
    items += itemsOf(policy)
    if (items < ITEMS_A_PIECE && index + 1 < policies.length) continue
    pieces.push(share(policies.slice(from, index + 1)))
    from = index + 1
    items = 0
  }
  const routing = (backends ?? routes) && share({ backends, routes })
  return { version: bundle_version, policyCount: policies.length, prices: prices && share(prices), callers, routing, usage, pieces }
}

function itemsOf({ spec: { rules, selector } }: Policy): number {
  return 1 + rules.length + (selector?.hosts?.length ?? 0) + (selector?.methods?.length ?? 0)
}

function share(value: object): SharedArrayBuffer {
  const bytes = serialize(value)
  const piece = new SharedArrayBuffer(bytes.length)
  Buffer.from(piece).set(bytes)
  return piece
}

export function byteLengthOf({ prices, routing, pieces }: SharedBundle): number {
  const others = (prices?.byteLength ?? 0) + (routing?.byteLength ?? 0)
  return pieces.reduce((sum, { byteLength }) => sum + byteLength, others)
}

export function* policiesOf({ pieces }: SharedBundle): Generator<Policy> {
  for (const piece of pieces) yield* deserialize(Buffer.from(piece)) as Policy[]
}

export function pricesOf({ prices }: SharedBundle): Bundle['prices'] {
  return prices && (deserialize(Buffer.from(prices)) as Bundle['prices'])
}

export function routingOf({ routing }: SharedBundle): Pick<Bundle, 'backends' | 'routes'> {
  return routing === undefined ? {} : (deserialize(Buffer.from(routing)) as Pick<Bundle, 'backends' | 'routes'>)
}
