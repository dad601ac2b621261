import type { QueryRow, ReturnRow } from './counter-rows.ts'
import type { RedisLink } from './link/redis-link.ts'
import type { Script } from './link/script.ts'
import { type QueryAction, queryArguments, returnArguments } from './script-arguments.ts'
import { readReply, type ScriptReply } from './script-reply.ts'

/** The part of a connection that counters use. */
export type CounterLink = Pick<RedisLink, 'groupOf' | 'isUsable' | 'run'>

/** Decay of the slowest time with each reply: after a thousand, about a third of it is left. */
const SLOWEST_DECAY = 0.999

/** Runs the script: rows are sent as text, and replies are read as numbers. All rows of a call belong to one group. */
export class ScriptCalls {
  readonly #link: CounterLink
  readonly #script: Script
  /** The slowest recent round trip of a query. */
  slowestMs = 0

  constructor(link: CounterLink, script: Script) {
    this.#link = link
    this.#script = script
  }

  /** Rejects with a LinkError. */
  async ask(action: QueryAction, rows: readonly QueryRow[], knownMs: number): Promise<ScriptReply> {
    const sentMs = performance.now()
    const reply = await this.#link.run(this.#script, keysOf(rows), queryArguments(action, rows, knownMs))
    this.slowestMs = Math.max(performance.now() - sentMs, this.slowestMs * SLOWEST_DECAY)
    return readReply(reply, rows.length)
  }

  /** Rejects with a LinkError. */
  async giveBack(action: 'settle' | 'refund' | 'give_back', rows: readonly ReturnRow[]): Promise<ScriptReply> {
    return readReply(await this.#link.run(this.#script, keysOf(rows), returnArguments(action, rows)), rows.length)
  }

  /** Rejects with a LinkError. */
  async renew(rows: readonly ReturnRow[]): Promise<ScriptReply> {
    return readReply(await this.#link.run(this.#script, keysOf(rows), returnArguments('renew', rows)), rows.length)
  }
}

function keysOf(rows: readonly { readonly key: string }[]): string[] {
  return rows.map(({ key }) => key)
}
