import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { canOverdraw, newRecord } from '../../limiter/limit.ts'
import { identityDigest } from '../counter-locator.ts'
import type { CounterOverride, CounterSpec } from '../counter-store.ts'
import { SubjectWords } from '../subject.ts'
import { type CounterPlace, EmbeddedCounter } from '../table/embedded-counter.ts'

/**
 * After an override has come into force, replies to questions from before it are still charged to own counts, under the limit from before. However
 * late that is, a record of that limit counts as last written before the override: it has yet to be raised.
 */
const LATE_REPLIES_MS = Number.POSITIVE_INFINITY

/** A counter that the fleet shares in Redis, and that this process counts too. */
export class FleetCounter extends EmbeddedCounter {
  /** The words of its identity, with which each of its subjects begins. */
  readonly identityWords: Int32Array
  readonly isLeasable: boolean
  /** Takes are corrected later. */
  readonly isSettled: boolean
  /** Separates the records of a key's leases from the key's own. A changed limit starts without leases. */
  readonly leaseSalt: number
  /** The one that its limit comes from, if any. */
  readonly override: CounterOverride | undefined
  #identityDigest: string | undefined

  constructor(spec: CounterSpec, place: CounterPlace) {
    super(spec, place, spec.override === undefined ? 0 : LATE_REPLIES_MS)
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

  /** See `identityDigest` in `counter-locator.ts`; computed when first needed. */
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
