import type { Redis } from 'ioredis'

/** How long each step to a connection may take. Shorter than a start is quiet: the first that is told is then the reason. */
export const CONNECT_STEP_MS = 1500

/** Ends an attempt to connect that does not get on, and says where it was stuck. */
export class ConnectWatch {
  readonly #client: Redis
  readonly #isTls: boolean
  #timer: NodeJS.Timeout | undefined

  /** `hasSentinels`: they are asked before there is a connection, and have limits of their own. */
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
    // Judged after the sockets were read once more: our own event loop may be what was late.
    this.#timer = setTimeout(() => setImmediate(() => this.#judge(step)), CONNECT_STEP_MS)
  }

  #judge(step: string): void {
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
