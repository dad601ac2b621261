import { hash } from 'node:crypto'
import { assetText } from '../../files/package-files.ts'
import { LinkError, type Script } from './link/call.ts'
import type { RedisLink } from './link/redis-link.ts'

/** A key as Redis stores it. Times are in whole microseconds. */
export interface StoredKey {
  readonly id: string
  readonly moment: number
  /** 0 if it is never forgotten. */
  readonly forget: number
  readonly isRevoked: boolean
  /** Undefined if the key was forgotten. */
  readonly text: string | undefined
}

export interface KeyNews {
  readonly epoch: string
  /** Number and sum of all keys, for comparison, see `keySum`. */
  readonly size: number
  readonly sum: number
  /** Number and sum of all keys that were ever revoked. */
  readonly revoked: { readonly size: number; readonly sum: number }
  readonly lastChange: string
  readonly keys: readonly StoredKey[]
  /** Number of entries that are not in our format. */
  readonly unreadable: number
}

/** The moment of a put; or why it was not done: its state is not the expected one, the key was revoked once, or there are too many. */
export type StoredOutcome = number | 'changed' | 'revoked' | 'full'

export interface KeyStorePut {
  readonly id: string
  /** The moment of the state that it replaces; undefined if there is none. */
  readonly expected: number | undefined
  readonly expires: number | undefined
  readonly isRevoked: boolean
  readonly text: string
}

/** Keys in one call: few enough not to slow down decisions on the same Redis. */
export const KEYS_PER_CALL = 500
const MODULUS = 2 ** 48
const GONE = '-'

/** Reads and changes the issued keys that a fleet shares, see `assets/redis/keys.lua`. All methods reject with a LinkError. */
export class KeyScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script
  readonly #keys: readonly string[]
  readonly #kept: string

  /** `prefix` is that of all keys in Redis; `keptMs` is how long an issued key is remembered after its end. */
  constructor(link: Pick<RedisLink, 'run'>, prefix: string, keptMs: number) {
    this.#link = link
    const text = `${assetText('redis/clock.lua')}\n${assetText('redis/keys.lua')}`
    this.#script = { text, sha: hash('sha1', text) }
    // In a cluster, the hash tag in braces puts all keys into one slot.
    this.#keys = ['facts', 'entries', 'order', 'ends', 'revoked'].map((name) => `${prefix}{keys}:${name}`)
    this.#kept = String(keptMs * 1000)
  }

  async poll(epoch: string, lastChange: string): Promise<KeyNews> {
    const [newEpoch, size, sum, revoked, revokedSum, newChange, ...rest] = await this.#run([
      'poll',
      epoch,
      lastChange,
      String(KEYS_PER_CALL),
      this.#kept,
    ])
    const keys: StoredKey[] = []
    let unreadable = 0
    for (let i = 0; i + 1 < rest.length; i += 2) {
      const key = storedKey(rest[i]!, rest[i + 1]!)
      if (key === undefined) unreadable++
      else keys.push(key)
    }
    return {
      epoch: newEpoch!,
      size: Number(size),
      sum: Number(sum),
      revoked: { size: Number(revoked), sum: Number(revokedSum) },
      lastChange: newChange!,
      keys,
      unreadable,
    }
  }

  async put(epoch: string, capacity: number, puts: readonly KeyStorePut[]): Promise<StoredOutcome[]> {
    const args = puts.flatMap(({ id, expected, expires, isRevoked, text }) => [
      id,
      expected === undefined ? GONE : String(expected),
      expires === undefined ? GONE : String(expires),
      isRevoked ? '1' : '0',
      text,
    ])
    const reply = await this.#run(['put', epoch, String(capacity), this.#kept, ...args])
    return reply.map((each) => (each === 'changed' || each === 'revoked' || each === 'full' ? each : Number(each)))
  }

  /** Adds keys that have moments already. */
  async add(epoch: string, capacity: number, keys: readonly StoredKey[]): Promise<void> {
    const args = keys.flatMap(({ id, moment, forget, isRevoked, text = GONE }) => [
      id,
      String(moment),
      String(forget),
      isRevoked ? '1' : '0',
      text,
    ])
    if (keys.length > 0) await this.#run(['add', epoch, String(capacity), ...args])
  }

  /** Returns the ids of the keys that Redis does not have, or not in this state. */
  async offer(epoch: string, keys: readonly Pick<StoredKey, 'id' | 'moment' | 'isRevoked'>[]): Promise<readonly string[]> {
    return this.#run(['offer', epoch, ...keys.flatMap(({ id, moment, isRevoked }) => [id, String(moment), isRevoked ? '1' : '0'])])
  }

  /** Returns ids of revoked keys after this one, in their order; the last page has fewer than KEYS_PER_CALL. */
  async revoked(epoch: string, after: string | undefined): Promise<readonly string[]> {
    const number = after === undefined ? -1 : Number.parseInt(after, 16)
    return this.#run(['revoked', epoch, String(number), String(KEYS_PER_CALL)])
  }

  /** Has Redis remember that these keys are revoked. */
  async keepRevoked(epoch: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#run(['keep', epoch, this.#kept, ...ids])
  }

  async #run(args: readonly string[]): Promise<string[]> {
    const reply: unknown = await this.#link.run(this.#script, this.#keys, args)
    if (!Array.isArray(reply)) throw new LinkError('unknown', 'malformed', 'not a reply of the script')
    return reply as string[]
  }
}

/** Adds a key to the sum that two who know the same keys have in common, or with `sign` -1 takes it out. */
export function keySum(sum: number, id: string, moment: number, sign: 1 | -1): number {
  const number = Number.parseInt(hash('sha1', `${id} ${moment}`).slice(0, 12), 16)
  return (sum + sign * number + MODULUS) % MODULUS
}

/** Returns undefined if the entry is not one of ours. */
function storedKey(id: string, entry: string): StoredKey | undefined {
  const [, moment, forget, revoked, text] = /^(\d{1,16}) (\d{1,16}) ([01]) (.*)$/s.exec(entry) ?? []
  if (text === undefined) return undefined
  return { id, moment: Number(moment), forget: Number(forget), isRevoked: revoked === '1', text: text === GONE ? undefined : text }
}
