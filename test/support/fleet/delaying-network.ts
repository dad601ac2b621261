import type { Script, ScriptArgument } from '../../../src/store/redis/link/call.ts'
import type { RedisLink } from '../../../src/store/redis/link/redis-link.ts'

/** Between instances and Redis: calls wait until they are let through, in any order, and their replies too. */
export class DelayingNetwork {
  wallMs: number
  readonly #link: RedisLink
  readonly #startMs: number
  readonly #waiting: (() => void)[] = []
  /** The call that was let through last. */
  #executed: Promise<unknown> | undefined

  constructor(link: RedisLink, startMs: number) {
    this.#link = link
    this.#startMs = startMs
    this.wallMs = startMs
  }

  groupOf(): number {
    return 0
  }

  isUsable(): boolean {
    return true
  }

  /** `onExecuted`: called when Redis has done it, in the order in which Redis does. */
  async run(script: Script, keys: readonly string[], args: readonly ScriptArgument[], onExecuted = () => {}): Promise<unknown> {
    await this.#wait()
    const now = String(this.wallMs - this.#startMs)
    this.#executed = this.#link.run(script, keys, [...args, now, String(this.wallMs)])
    const reply = await this.#executed
    onExecuted()
    await this.#wait()
    return reply
  }

  /** Lets one of those that wait go on. Returns false where none does. */
  async letThrough(which: number): Promise<boolean> {
    if (this.#waiting.length === 0) return false
    const [go] = this.#waiting.splice(which % this.#waiting.length, 1)
    go!()
    await Promise.resolve()
    await this.#executed
    // Whoever waited for that goes on.
    await new Promise((resolve) => setImmediate(resolve))
    return true
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}
