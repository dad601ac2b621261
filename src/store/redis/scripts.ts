import { createHash } from 'node:crypto'
import { assetText } from '../../files/package-files.ts'
import { BUCKET } from '../../limiter/limit.ts'
import type { Script } from './link/call.ts'
import type { Probe } from './link/link-options.ts'
import type { RedisLink } from './link/redis-link.ts'
import { queryArguments } from './script-format.ts'

/** Returns the script that makes each decision. `clock` is the Lua text that reads the time. */
export function counterScript(clock = assetText('redis/clock.lua')): Script {
  const text = `${clock}\n${assetText('redis/counters.lua')}`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** A bucket of one token, which refills in a millisecond. */
const LIMIT = { kind: BUCKET, tokensPerMs: 1, burst: 1 } as const

/** Returns a call that does what decisions do, on a key of its own that expires at once. */
export function counterProbe(script: Script, key: string): Probe {
  const row = { row: 0, key, limit: LIMIT, ageMs: 0, cost: 1, most: 1, lease: 0, knownResetMs: 0, wallMs: 0, isChargedAlong: false }
  return { script, keys: [key], args: queryArguments('take', [row], 0), isValidReply }
}

/** A valid reply starts with whether the take fits (several workers may probe at once, so it need not), and then has the time. */
function isValidReply(reply: unknown): boolean {
  return typeof reply === 'string' && /^[01] \d/.test(reply)
}

/** The script that keeps track of reservations, see `assets/redis/reservations.lua`. */
export class ReservationScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script

  constructor(link: Pick<RedisLink, 'run'>) {
    this.#link = link
    const text = assetText('redis/reservations.lua')
    this.#script = { text, sha: createHash('sha1').update(text).digest('hex') }
  }

  /** Marks a reservation as settled. Returns whether it was marked before. Rejects with a LinkError. */
  async mark(key: string, number: number, ttlMs: number): Promise<boolean> {
    return (await this.#link.run(this.#script, [key], ['mark', String(number), String(ttlMs)])) === '1'
  }

  /** Leaves a correction for an instance. Returns false if there are too many already. Rejects with a LinkError. */
  async leave(key: string, entry: string, capacity: number, ttlMs: number): Promise<boolean> {
    return (await this.#link.run(this.#script, [key], ['leave', entry, String(capacity), String(ttlMs)])) === '1'
  }

  /** Removes and returns the oldest corrections. Rejects with a LinkError. */
  async read(key: string, count: number): Promise<readonly string[]> {
    return (await this.#link.run(this.#script, [key], ['read', String(count)])) as unknown as readonly string[]
  }
}
