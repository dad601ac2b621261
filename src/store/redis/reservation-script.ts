import { createHash } from 'node:crypto'
import { assetText } from '../../asset.ts'
import type { RedisLink } from './link/redis-link.ts'
import type { Script } from './link/script.ts'

/** What reservations are kept with, see `assets/redis/reservations.lua`. */
export class ReservationScript {
  readonly #link: Pick<RedisLink, 'run'>
  readonly #script: Script

  constructor(link: Pick<RedisLink, 'run'>) {
    this.#link = link
    const text = assetText('redis/reservations.lua')
    this.#script = { text, sha: createHash('sha1').update(text).digest('hex') }
  }

  /** Returns whether it was marked before. Rejects with a LinkError. */
  async mark(key: string, number: number, ttlMs: number): Promise<boolean> {
    return (await this.#link.run(this.#script, [key], ['mark', String(number), String(ttlMs)])) === '1'
  }

  /** Returns false where there are too many already. Rejects with a LinkError. */
  async leave(key: string, entry: string, capacity: number, ttlMs: number): Promise<boolean> {
    return (await this.#link.run(this.#script, [key], ['leave', entry, String(capacity), String(ttlMs)])) === '1'
  }

  /** The oldest entries, which are gone from there. Rejects with a LinkError. */
  async read(key: string, count: number): Promise<readonly string[]> {
    return (await this.#link.run(this.#script, [key], ['read', String(count)])) as unknown as readonly string[]
  }
}
