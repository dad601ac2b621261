import type { Redis } from 'ioredis'

/** How long each step to a connection may take. Shorter than the circuit's quiet startup, so that the first report has the reason. */
export const CONNECT_STEP_MS = 1500

/** Ends an attempt to connect that hangs, with the step at which it did. */
export class ConnectWatch {
  readonly #client: Redis
  readonly #isTls: boolean
  #timer: NodeJS.Timeout | undefined

  /** `hasSentinels`: they are asked before there is a connection, with timeouts of their own. */
  constructor(client: Redis, isTls: boolean, hasSentinels: boolean) {
    this.#client = client
    this.#isTls = isTls
    if (!hasSentinels) client.on('connecting', () => this.#arm('connecting'))
    client.on('connect', () => this.#arm('connect'))
    client.on('ready', () => this.stop())
    client.on('end', () => this.stop())
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #arm(step: 'connecting' | 'connect'): void {
    clearTimeout(this.#timer)
    // The sockets are read once more before: it may be our own event loop that was late.
    this.#timer = setTimeout(() => setImmediate(() => this.#check(step)), CONNECT_STEP_MS)
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
