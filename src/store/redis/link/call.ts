import type { LinkError } from './link-error.ts'
import type { Script } from './script.ts'

/** The calls of one turn of the event loop: sent in one write, with one deadline. */
export interface WriteBatch {
  readonly sentMs: number
  /** When its calls are given up, by the clock of the deadlines. */
  readonly dueMs: number
  /** Empty once all of them are done. */
  calls: readonly Call[]
  pendingCount: number
}

/** A command sent to Redis. Settled once, by its reply, by its deadline, or by the end of its connection. */
export class Call {
  readonly name: string
  readonly args: readonly string[]
  /** Set for EVALSHA, to be sent in full where Redis does not have it. */
  readonly script: Script | undefined
  readonly reply: Promise<unknown>
  isDone = false
  /** Set when it is sent. */
  batch: WriteBatch | undefined
  /** Called at the deadline. Set by the node that the call was sent to last. */
  onTimeout: ((call: Call) => void) | undefined
  redirections = 0
  #resolve!: (reply: unknown) => void
  #reject!: (error: LinkError) => void

  constructor(name: string, args: readonly string[], script?: Script) {
    this.name = name
    this.args = args
    this.script = script
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  static ofScript(script: Script, keys: readonly string[], args: readonly string[]): Call {
    return new Call('evalsha', [script.sha, String(keys.length), ...keys, ...args], script)
  }

  succeed(reply: unknown): void {
    if (this.#finish()) this.#resolve(reply)
  }

  fail(error: LinkError): void {
    if (this.#finish()) this.#reject(error)
  }

  #finish(): boolean {
    if (this.isDone) return false
    this.isDone = true
    const { batch } = this
    if (batch !== undefined && --batch.pendingCount === 0) batch.calls = []
    return true
  }
}
