import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { CALLER_FIELD } from './budget-caller.ts'

/** How many requests of each caller are at the backend. */
export class BackendHolds {
  readonly #now = new Map<string, number>()
  readonly most = new Map<string, number>()

  async hold({ headers }: IncomingMessage, res: ServerResponse, ms: number): Promise<void> {
    const caller = String(headers[CALLER_FIELD.toLowerCase()])
    this.#change(caller, 1)
    await Promise.race([sleep(ms), new Promise((resolve) => res.once('close', resolve))])
    this.#change(caller, -1)
    res.end('held')
  }

  #change(caller: string, by: 1 | -1): void {
    const now = (this.#now.get(caller) ?? 0) + by
    this.#now.set(caller, now)
    this.most.set(caller, Math.max(now, this.most.get(caller) ?? 0))
  }
}
