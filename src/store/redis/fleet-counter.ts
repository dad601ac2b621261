import { algorithmOf } from '../../limiter/algorithms/algorithms.ts'
import { newRecord } from '../../limiter/record.ts'
import type { CounterSpec } from '../counter-store.ts'
import { EmbeddedCounter } from '../embedded-store.ts'
import type { HashState } from '../half-sip-hash.ts'
import { SubjectWords } from '../subject.ts'
import type { SharedCounter } from './shared-counter.ts'

/** A counter that the fleet shares, and that this process keeps too. */
export class FleetCounter extends EmbeddedCounter implements SharedCounter {
  readonly identityWords: Int32Array
  readonly isLeasable: boolean
  /** Tells the records of a key's leases from the key's own. A changed limit begins without leases. */
  readonly leaseSalt: number

  constructor(spec: CounterSpec, prefix: HashState) {
    super(spec, prefix)
    const subject = new SubjectWords()
    subject.addIdentity(spec.identity)
    this.identityWords = subject.words.slice(0, subject.length)
    const algorithm = algorithmOf(spec.limit)
    this.isLeasable = algorithm.isLeasable && (spec.isLeasable ?? false)
    const { size, rate } = limitNumbers(spec)
    this.leaseSalt = mix(size, rate)
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
