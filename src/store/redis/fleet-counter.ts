import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { canOverdraw, newRecord } from '../../limiter/limit.ts'
import { identityDigest } from '../counter-locator.ts'
import type { CounterOverride, CounterSpec } from '../counter-store.ts'
import { SubjectWords } from '../subject.ts'
import { EmbeddedCounter, type SubjectLookup } from '../table/embedded-counter.ts'

/**
 * How long after an override has come into force replies to earlier questions may still be charged to own counts, under the limit from
 * before. However late that is, a record with that limit counts as last written before the override, and has yet to be raised.
 */
const LATE_REPLIES_MS = Number.POSITIVE_INFINITY

/** A counter that the fleet shares in Redis, and that this process counts too. */
export class FleetCounter extends EmbeddedCounter {
  /** Words of the identity, with which each of the counter's subjects begins. */
  readonly identityWords: Int32Array
  readonly isLeasable: boolean
  /** Whether takes are corrected later. */
  readonly isSettled: boolean
  /** Separates the records of a key's leases from the key's own record. A changed limit starts without leases. */
  readonly leaseSalt: number
  /** The override that the limit comes from, if any. */
  readonly override: CounterOverride | undefined
  #identityDigest: string | undefined

  constructor(spec: CounterSpec, lookup: SubjectLookup) {
    super(spec, lookup, spec.override === undefined ? 0 : LATE_REPLIES_MS)
    const subject = new SubjectWords()
    subject.addIdentity(spec.identity)
    this.identityWords = subject.words.slice(0, subject.length)
    const algorithm = algorithmOf(spec.limit)
    this.isLeasable = algorithm.isLeasable && (spec.isLeasable ?? false) && !canOverdraw(spec.limit)
    this.isSettled = spec.isSettled ?? spec.isLeasable !== true
    this.override = spec.override
    const { size, rate } = limitNumbers(spec)
    this.leaseSalt = mix(size, rate)
  }

  /** Digest of the identity, computed when first needed; see `identityDigest` in `counter-locator.ts`. */
  get identityDigest(): string {
    this.#identityDigest ??= identityDigest(this.identity)
    return this.#identityDigest
  }
}

function limitNumbers({ limit }: CounterSpec): { size: number; rate: number } {
  const record = newRecord()
  algorithmOf(limit).begin(limit, record, 0, 0)
  return record
}

function mix(size: number, rate: number): number {
  const [sizeBits, rateBits] = new Int32Array(new Float32Array([size, rate]).buffer)
  const bits = Math.imul(sizeBits! ^ Math.imul(rateBits!, 0x9e3779b1), 0x85ebca6b)
  return bits ^ (bits >>> 15)
}
