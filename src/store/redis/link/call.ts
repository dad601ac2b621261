/** The calls of one turn of the event loop, which are sent in one write and have one deadline. */
export interface WriteBatch {
  readonly sentMs: number
  /** When its calls time out, by the clock of the deadlines. */
  readonly dueMs: number
  /** Becomes empty once all calls are done. */
  calls: readonly Call[]
  pendingCount: number
}

/** A command sent to Redis. It is finished once, by its reply, by its deadline, or by the end of its connection. */
export class Call {
  readonly name: string
  readonly args: readonly string[]
  /** Set for EVALSHA, so that the script can be sent in full if Redis does not have it. */
  readonly script: Script | undefined
  readonly reply: Promise<unknown>
  isDone = false
  /** Set when the call is sent. */
  batch: WriteBatch | undefined
  /** Called at the deadline. It is set by the node that the call was last sent to. */
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

/**
 * Timers after which the link stops waiting for a server: for the reply to a call, for each step to a connection, and for the first use.
 * Tests control them, so that a slow machine never makes a server time out. Pauses before another attempt are not among them.
 */
export interface Deadlines {
  nowMs(): number
  /** Calls `run` after `ms`. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void
}

export const realDeadlines: Deadlines = {
  nowMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/**
 * The outcome of a command that failed. `not_sent`: it was never sent. `refused`: Redis replied with an error, so nothing was done.
 * `unknown`: it may have been done.
 */
export type CallOutcome = 'not_sent' | 'refused' | 'unknown'

/** A call to Redis that failed. `code` is that of Redis (LOADING, OOM …), or one of ours in lower case. */
export class LinkError extends Error {
  override readonly name = 'LinkError'
  readonly outcome: CallOutcome
  readonly code: string

  constructor(outcome: CallOutcome, code: string, message: string) {
    super(message)
    this.outcome = outcome
    this.code = code
  }
}

/** A Lua script that Redis runs. */
export interface Script {
  readonly text: string
  /** SHA-1 of the text, as EVALSHA expects it. */
  readonly sha: string
}
