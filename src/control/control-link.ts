import { ApiError } from '../admin/api/api-error.ts'
import { type CallResult, type ControlCallName, type ControlCalls, resultAnswer } from './control-calls.ts'

/** A main thread that takes longer than this is waiting for a disk or a network that does not respond. */
const TIMEOUT_MS = 10_000

/** A worker's side of the calls that it makes to the main thread on behalf of operators. */
export class ControlLink {
  readonly #send: (call: number, name: ControlCallName, ask: unknown) => void
  readonly #open = new Map<number, { resolve: (answer: unknown) => void; reject: (error: unknown) => void; timer: NodeJS.Timeout }>()
  #calls = 0

  constructor(send: (call: number, name: ControlCallName, ask: unknown) => void) {
    this.#send = send
  }

  ask<Name extends ControlCallName>(name: Name, ask: ControlCalls[Name]['ask']): Promise<ControlCalls[Name]['answer']> {
    const call = ++this.#calls
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#open.delete(call)
        reject(new ApiError('store_unavailable', `no answer within ${TIMEOUT_MS / 1000} s: it may still be done`))
      }, TIMEOUT_MS).unref()
      this.#open.set(call, { resolve: resolve as (answer: unknown) => void, reject, timer })
      this.#send(call, name, ask)
    })
  }

  /** The main thread has answered a call. */
  note(call: number, result: CallResult): void {
    const open = this.#open.get(call)
    if (open === undefined) return
    this.#open.delete(call)
    clearTimeout(open.timer)
    try {
      open.resolve(resultAnswer(result))
    } catch (error) {
      open.reject(error)
    }
  }
}
