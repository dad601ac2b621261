import type { Redis } from 'ioredis'
import type { Deadlines } from './deadlines.ts'

/** How long each step to a connection may take. Shorter than the circuit's quiet startup, so that the first report has the reason. */
export const CONNECT_STEP_MS = 1500

/** Ends an attempt to connect that hangs, with the step at which it did. */
export class ConnectWatch {
  readonly #client: Redis
  readonly #isTls: boolean
  readonly #deadlines: Deadlines
  #cancel: (() => void) | undefined

  /** `hasSentinels`: they are asked before there is a connection, with timeouts of their own. */
  constructor(client: Redis, isTls: boolean, hasSentinels: boolean, deadlines: Deadlines) {
    this.#client = client
    this.#isTls = isTls
    this.#deadlines = deadlines
    if (!hasSentinels) client.on('connecting', () => this.#arm('connecting'))
    client.on('connect', () => this.#arm('connect'))
    client.on('ready', () => this.stop())
    client.on('end', () => this.stop())
  }

  stop(): void {
    this.#cancel?.()
  }

  #arm(step: 'connecting' | 'connect'): void {
    this.#cancel?.()
    // The sockets are read once more before: it may be our own event loop that was late.
    this.#cancel = this.#deadlines.after(CONNECT_STEP_MS, () => setImmediate(() => this.#check(step)))
  }

  #check(step: string): void {
    const { status, stream } = this.#client
    if (status !== step) return
    stream?.destroy(new Error(`${this.#stuckAt()} within ${CONNECT_STEP_MS} ms`))
  }

  #stuckAt(): string {
    const { status, stream } = this.#client
    if (status === 'connect') return 'it accepts connections, but there was no answer to the handshake'
    if (stream.connecting || !this.#isTls) return 'no connection'
    return 'does it speak TLS? There was no answer to the TLS handshake'
  }
}
