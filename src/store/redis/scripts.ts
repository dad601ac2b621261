import { createHash } from 'node:crypto'
import { assetText } from '../../files/package-files.ts'
import { BUCKET } from '../../limiter/limit.ts'
import type { Script } from './link/call.ts'
import type { Probe } from './link/link-options.ts'
import type { RedisLink } from './link/redis-link.ts'
import { queryArguments, readReply } from './script-format.ts'

/** The script that makes each decision: with all kinds of counters, and with buckets alone, which takes Redis less time to run. */
export interface CounterScripts {
  readonly all: Script
  readonly buckets: Script
  /** The script that keeps records of requests in flight, see `assets/redis/counters/open.lua`. */
  readonly open: Script
  /** The script that knows where there are such records, see `assets/redis/open-index.lua`. */
  readonly openIndex: Script
}

/** `clock` is the Lua text that reads the time. */
export function counterScripts(clock = assetText('redis/clock.lua')): CounterScripts {
  return {
    all: counterScript(clock, ['bucket', 'window', 'in-flight', 'decide']),
    buckets: counterScript(clock, ['bucket', 'decide']),
    open: counterScript(clock, ['bucket', 'window', 'open']),
    openIndex: newScript([clock, assetText('redis/open-index.lua')]),
  }
}

function counterScript(clock: string, parts: readonly string[]): Script {
  return { ...newScript([clock, ...['counters', ...parts].map((name) => assetText(`redis/counters/${name}.lua`))]), repliesNumbers: true }
}

function newScript(parts: readonly string[]): Script {
  const text = parts.join('\n')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** A bucket of one token, which refills in a millisecond. */
const LIMIT = { kind: BUCKET, tokensPerMs: 1, burst: 1 } as const

/** Returns a call that does what decisions do, on a key of its own that expires at once. */
export function counterProbe(script: Script, key: string): Probe {
  const row = { row: 0, key, limit: LIMIT, ageMs: 0, cost: 1, most: 1, lease: 0, knownResetMs: 0, wallMs: 0, isChargedAlong: false }
  return { script, keys: [key], args: queryArguments('take', [row], 0), isValidReply }
}

/** A valid reply has a row, and says when it was made. Whether the take fits is open, because several workers may probe at once. */
function isValidReply(reply: unknown): boolean {
  try {
    const { fits, wallMs } = readReply(reply, 1)
    return fits !== 'other_window' && wallMs > 0
  } catch {
    return false
  }
}

/** The script that keeps track of reservations, see `assets/redis/reservations.lua`. */
export class ReservationScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script

  constructor(link: Pick<RedisLink, 'run'>) {
    this.#link = link
    this.#script = newScript([assetText('redis/reservations.lua')])
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
