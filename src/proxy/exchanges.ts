import type { AllowedRequest } from './allowed-request.ts'
import type { ReadBody } from './body/request-body.ts'
import { Exchange, type ExchangeParts } from './exchange.ts'

/** More are rarely in progress at a time, and each free exchange keeps its last request in memory. */
const MAX_FREE = 64

/** The exchanges of a worker. One that has ended in order is reused for another request. */
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
