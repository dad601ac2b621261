import type { QuestionRow, ReturnRow } from './counter-rows.ts'
import type { RedisLink } from './link/redis-link.ts'
import type { Script } from './link/script.ts'
import { readAnswer, type ScriptAnswer } from './script-answer.ts'
import { type QuestionAction, questionArguments, type ReturnAction, returnArguments } from './script-arguments.ts'

/** What counters need of a connection. */
export type CounterLink = Pick<RedisLink, 'groupOf' | 'isUsable' | 'run'>

/** By how much the slowest time fades with each answer: after a thousand, about a third of it is left. */
const SLOWEST_FADES = 0.999

/** Calls of the script: rows go out as text, and its answers come back as numbers. All rows of a call are of one group. */
export class ScriptCalls {
  readonly #link: CounterLink
  readonly #script: Script
  /** How long the slowest answer to a question took of late. */
  slowestMs = 0

  constructor(link: CounterLink, script: Script) {
    this.#link = link
    this.#script = script
  }

  /** Rejects with a LinkError. */
  async ask(action: QuestionAction, rows: readonly QuestionRow[]): Promise<ScriptAnswer> {
    const sentMs = performance.now()
    const reply = await this.#link.run(this.#script, keysOf(rows), questionArguments(action, rows))
    this.slowestMs = Math.max(performance.now() - sentMs, this.slowestMs * SLOWEST_FADES)
    return readAnswer(reply, rows.length)
  }

  /** Rejects with a LinkError. */
  async giveBack(action: ReturnAction, rows: readonly ReturnRow[]): Promise<void> {
    await this.#link.run(this.#script, keysOf(rows), returnArguments(action, rows))
  }
}

function keysOf(rows: readonly { readonly key: string }[]): string[] {
  return rows.map(({ key }) => key)
}
