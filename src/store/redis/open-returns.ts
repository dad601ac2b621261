import type { Clock } from '../../time/clock.ts'
import { recordHash } from './counter-rows.ts'
import { LinkError } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'
import { indexKey, SILENT_MS } from './open-records.ts'
import { inBatches } from './script-calls.ts'
import type { CounterScripts } from './scripts.ts'

export interface OpenReturnsParts {
  readonly link: Pick<RedisLink, 'run' | 'command'>
  readonly scripts: Pick<CounterScripts, 'open' | 'openIndex'>
  /** Prefix of all keys. */
  readonly prefix: string
  readonly clock: Pick<Clock, 'nowMs'>
  /** Called with what was given back for each thread. */
  readonly onReturned: (instance: string, returned: Returned) => void
}

const LOOK_MS = 10_000
/** Counters that are asked for at once, and records in one call: few enough that decisions on the same Redis do not slow down. */
const MEMBERS = 500
const RECORDS = 20

/** What was returned of one thread. */
interface Returned {
  records: number
  tokens: number
  kept_tokens: number
  nanos: number
  kept_nanos: number
}

/** Gives back what threads had reserved that are not heard of any more: those of this instance before a restart, or of any other (open-records.ts). */
export class OpenReturns {
  readonly #parts: OpenReturnsParts
  #lookedMs = Number.NEGATIVE_INFINITY
  #isLooking = false
  /** Whether the last look reached Redis. */
  #hasReached = false

  constructor(parts: OpenReturnsParts) {
    this.#parts = parts
  }

  /** Looks, unless the last look was a short time ago. Never rejects because of Redis. */
  async look(): Promise<void> {
    const nowMs = this.#parts.clock.nowMs()
    const agoMs = nowMs - this.#lookedMs
    if (this.#isLooking || agoMs < LOOK_MS) return
    this.#lookedMs = nowMs
    this.#isLooking = true
    try {
      // When Redis or this process comes back after a while, the others must be given time to be heard.
      await this.#return(this.#hasReached && agoMs < 2 * LOOK_MS ? MEMBERS : 0)
      this.#hasReached = true
    } catch (error) {
      this.#hasReached = false
      if (!(error instanceof LinkError)) throw error
    } finally {
      this.#isLooking = false
    }
  }

  async #return(count: number): Promise<void> {
    const { link, scripts, prefix } = this.#parts
    const byOwner = new Map<string, Returned>()
    try {
      for (let found = count; found === count; ) {
        const args = ['due', String(SILENT_MS), String(count)]
        const due = (await link.run(scripts.openIndex, [indexKey(prefix)], args)) as readonly string[]
        await inBatches(due, (member) => this.#returnMember(member, byOwner))
        if (due.length === 0) return
        found = due.length
      }
    } finally {
      for (const [instance, returned] of byOwner) this.#parts.onReturned(instance, returned)
    }
  }

  /** Never rejects because of Redis: the member is due again after a while. */
  async #returnMember(member: string, byOwner: Map<string, Returned>): Promise<void> {
    try {
      await this.#returnAll(member, byOwner)
      // If the thread is heard of at this moment, it is in the index again with its next report.
      await this.#parts.link.command('zrem', indexKey(this.#parts.prefix), member)
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
    }
  }

  async #returnAll(member: string, byOwner: Map<string, Returned>): Promise<void> {
    const { link, scripts, prefix } = this.#parts
    const at = member.indexOf(':')
    const [key, owner] = [prefix + member.slice(0, at), member.slice(at + 1)]
    const keys = [key, recordHash(prefix, key, owner)]
    const thread = owner.slice(0, owner.lastIndexOf('.'))
    for (let left = 1; left > 0; ) {
      const reply = (await link.run(scripts.open, keys, ['settle', [0], 'return', String(RECORDS)])) as readonly number[]
      const [more, records, tokens, kept_tokens, nanos, kept_nanos] = reply as [number, number, number, number, number, number]
      left = more
      if (records === 0) continue
      const sums = byOwner.get(thread) ?? { records: 0, tokens: 0, kept_tokens: 0, nanos: 0, kept_nanos: 0 }
      sums.records += records
      sums.tokens += tokens
      sums.kept_tokens += kept_tokens
      sums.nanos += nanos
      sums.kept_nanos += kept_nanos
      byOwner.set(thread, sums)
    }
  }
}
