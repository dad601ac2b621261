import { deserialize, serialize } from 'node:v8'
import type { Bundle, Policy } from '../policy/schema.ts'

const POLICIES_A_PIECE = 50

/** A valid bundle in memory that threads share, in pieces: none takes long to read. */
export interface SharedBundle {
  readonly version: Bundle['bundle_version']
  readonly policyCount: number
  readonly pieces: readonly SharedArrayBuffer[]
}

export function shareBundle({ bundle_version, policies }: Bundle): SharedBundle {
  const pieces: SharedArrayBuffer[] = []
  for (let from = 0; from < policies.length; from += POLICIES_A_PIECE) {
    const bytes = serialize(policies.slice(from, from + POLICIES_A_PIECE))
    const piece = new SharedArrayBuffer(bytes.length)
    Buffer.from(piece).set(bytes)
    pieces.push(piece)
  }
  return { version: bundle_version, policyCount: policies.length, pieces }
}

export function* policiesOf({ pieces }: SharedBundle): Generator<Policy> {
  for (const piece of pieces) yield* deserialize(Buffer.from(piece)) as Policy[]
}
