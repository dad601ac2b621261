import type { CommandBytes } from './command-bytes.ts'

const NONE: readonly string[] = []

/** An argument of a script: a text, or numbers that are sent packed as doubles. */
export type ScriptArgument = string | readonly number[]

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
  /** The script that the call runs by its hash; undefined for a plain command. */
  readonly script: Script | undefined
  readonly keys: readonly string[]
  /** Arguments of the script; of a plain command, its name and all that follows. */
  readonly args: readonly ScriptArgument[]
  readonly reply: Promise<unknown>
  isDone = false
  /** How often it was sent again because Redis did not have the script. */
  resentCount = 0
  /** Set when the call is sent. */
  batch: WriteBatch | undefined
  /** Called at the deadline. It is set by the node that the call was last sent to. */
  onTimeout: ((call: Call) => void) | undefined
  redirections = 0
  /** Whether the node that it was last sent to is only taking the slot over, so that ASKING must precede it each time. */
  isAsking = false
  #resolve!: (reply: unknown) => void
  #reject!: (error: LinkError) => void

  constructor(script: Script | undefined, keys: readonly string[], args: readonly ScriptArgument[]) {
    this.script = script
    this.keys = keys
    this.args = args
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  static ofCommand(name: string, args: readonly string[]): Call {
    return new Call(undefined, NONE, [name, ...args])
  }

  /** `isInFull`: with the script itself instead of its hash. */
  writeTo(bytes: CommandBytes, isInFull: boolean): void {
    const { script, keys, args } = this
    bytes.begin((script === undefined ? 0 : 3) + keys.length + args.length)
    if (script !== undefined) {
      bytes.add(isInFull ? 'eval' : 'evalsha')
      bytes.add(isInFull ? script.text : script.sha)
      bytes.add(String(keys.length))
    }
    for (let i = 0; i < keys.length; i++) bytes.add(keys[i]!)
    for (let i = 0; i < args.length; i++) {
      const arg = args[i]!
      if (typeof arg === 'string') bytes.add(arg)
      else bytes.addNumbers(arg)
    }
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
  /** Whether it replies with packed doubles instead of text. They are read as an array of numbers. */
  readonly repliesNumbers?: boolean
}
