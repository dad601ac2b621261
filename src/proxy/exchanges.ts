import type { AllowedRequest } from './allowed-request.ts'
import { Exchange, type ExchangeParts } from './exchange.ts'
import type { ReadBody } from './request-body.ts'

/** More are rarely under way at a time; each of those that rest keeps its last request in memory. */
const MAX_FREE = 64

/** The exchanges of a worker. One that has ended in order begins again with the next request. */
export class Exchanges {
  readonly #parts: ExchangeParts
  readonly #free: Exchange[] = []

  constructor(parts: ExchangeParts) {
    this.#parts = parts
  }

  begin(allowed: AllowedRequest, body: ReadBody | undefined): void {
    const exchange = this.#free.pop() ?? new Exchange(this.#parts, this.#release)
    exchange.begin(allowed, body)
  }

  readonly #release = (exchange: Exchange): void => {
    if (this.#free.length < MAX_FREE) this.#free.push(exchange)
  }
}
