import type { Departure, Departures, Traveller } from './departures.ts'
import type { LinkError } from './link-error.ts'
import type { RedisNode } from './redis-node.ts'

export interface Script {
  readonly text: string
  /** Of the text: what EVALSHA wants. */
  readonly sha: string
}

/** One command under way: settled once, by its answer or by its deadline, whichever is first. */
export class Call implements Traveller {
  readonly name: string
  readonly args: readonly string[]
  /** Set for EVALSHA, to be sent in full where Redis does not know it. */
  readonly script: Script | undefined
  readonly reply: Promise<unknown>
  isDone = false
  departure: Departure | undefined
  node: RedisNode | undefined
  redirections = 0
  readonly #departures: Departures
  #resolve!: (reply: unknown) => void
  #reject!: (error: LinkError) => void

  constructor(departures: Departures, name: string, args: readonly string[], script?: Script) {
    this.#departures = departures
    this.name = name
    this.args = args
    this.script = script
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  static ofScript(departures: Departures, script: Script, keys: readonly string[], args: readonly string[]): Call {
    return new Call(departures, 'evalsha', [script.sha, String(keys.length), ...keys, ...args], script)
  }

  succeed(reply: unknown): void {
    if (this.#end()) this.#resolve(reply)
  }

  fail(error: LinkError): void {
    if (this.#end()) this.#reject(error)
  }

  expire(): void {
    this.node?.onExpired(this)
  }

  #end(): boolean {
    if (this.isDone) return false
    this.isDone = true
    this.#departures.arrived(this)
    return true
  }
}
