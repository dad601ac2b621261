import type { Redis } from 'ioredis'
import { Backoff } from '../../../time/clock.ts'
import type { Deadlines } from './call.ts'
import type { LinkListener } from './link-options.ts'
import { ConnectWatch, createNodeClient, endClient } from './node-client.ts'
import { type EndedCalls, type OnReply, Pipeline } from './pipeline.ts'
import type { Endpoint, RedisAddress } from './redis-address.ts'

export interface ConnectionOptions {
  readonly name: string
  readonly address: RedisAddress
  /** Undefined means the master that the sentinels name. */
  readonly endpoint: Endpoint | undefined
  readonly listener: LinkListener
  readonly deadlines: Deadlines
}

export interface ConnectionListener {
  readonly onReady: () => void
  readonly onReply: OnReply
  /** Called when the connection has ended, with the calls that got no reply. */
  readonly onDown: (reason: string, calls: EndedCalls) => void
}

const CLOSED = 'the connection was closed'

/**
 * The connection to one server. It connects at once, and reconnects with a backoff whenever the connection ends. ioredis finds the server, connects and
 * logs in; from then on, calls and replies go through our own pipeline.
 */
export class NodeConnection {
  readonly #options: ConnectionOptions
  readonly #listener: ConnectionListener
  readonly #client: Redis
  readonly #connectWatch: ConnectWatch
  readonly #backoff = new Backoff(50, 1000)
  #reconnectTimer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Undefined unless the connection is ready. */
  #pipeline: Pipeline | undefined
  /** Why the connection is about to end. */
  #failure: string | undefined
  /** The error of the sentinel that was asked last. */
  #sentinelFailure: string | undefined

  constructor(options: ConnectionOptions, listener: ConnectionListener) {
    const { address, endpoint } = options
    this.#options = options
    this.#listener = listener
    this.#client = createNodeClient(address, endpoint)
    this.#client.on('error', this.#onError)
    this.#client.on('sentinelError', (error: Error) => {
      this.#sentinelFailure = errorText(error, address)
    })
    this.#client.on('ready', this.#onReady)
    this.#client.on('end', this.#onEnd)
    this.#connectWatch = new ConnectWatch(this.#client, address.isTls, endpoint === undefined, options.deadlines)
    this.#connect()
  }

  /** Where calls are added and sent; undefined if there is no connection. */
  get pipeline(): Pipeline | undefined {
    return this.#client.status === 'ready' && this.#client.stream.writable ? this.#pipeline : undefined
  }

  /** Makes the next reconnection quick, because the server has replied. */
  resetBackoff(): void {
    this.#backoff.reset()
  }

  /** Ends the connection. The next one may lead to another server. */
  reconnect(): void {
    this.#client.disconnect(true)
  }

  abort(reason: string): void {
    this.#client.stream.destroy(new Error(reason))
  }

  /**
   * Sends what was written, then ends the connection. Resolves when it has ended, or has not ended in time. No callback is called from now
   * on.
   */
  close(): Promise<void> {
    this.#isClosed = true
    this.#connectWatch.stop()
    clearTimeout(this.#reconnectTimer)
    this.pipeline?.flush()
    return endClient(this.#client)
  }

  #connect(): void {
    this.#failure = undefined
    this.#sentinelFailure = undefined
    // A failure is also emitted as an event, and handled there.
    this.#client.connect().catch(() => {})
  }

  readonly #onError = (error: Error & { command?: { name: string } }): void => {
    if (this.#isClosed) return
    const { name, address, listener } = this.#options
    const isOfSentinels = this.#sentinelFailure !== undefined && error.message.startsWith('All sentinels')
    this.#failure = isOfSentinels ? `no sentinel could provide the master: ${this.#sentinelFailure}` : errorText(error, address)
    listener.onError('connection', name, this.#failure)
    // Without this, ioredis would continue in database 0.
    if (error.command?.name === 'select') this.#client.stream.destroy()
  }

  readonly #onReady = (): void => {
    this.#pipeline = new Pipeline(this.#client.stream, this.#listener.onReply)
    if (!this.#isClosed) this.#listener.onReady()
  }

  readonly #onEnd = (): void => {
    const calls = this.#pipeline?.end() ?? { sent: [], unsent: [] }
    this.#pipeline = undefined
    const reason = this.#failure ?? CLOSED
    if (!this.#isClosed && this.#failure === undefined) this.#options.listener.onError('connection', this.#options.name, CLOSED)
    this.#listener.onDown(reason, calls)
    if (this.#isClosed) return
    this.#reconnectTimer = setTimeout(() => this.#connect(), this.#backoff.nextMs())
  }
}

const MAX_LENGTH = 300

/** OpenSSL's codes for a server that replies to a TLS handshake in plain text. */
const NOT_TLS: ReadonlySet<unknown> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

/** Describes an error without the secrets of the address, because a server may repeat what it was sent. */
export function errorText(error: unknown, address: RedisAddress): string {
  let text = knownCause(error) ?? messageOf(error)
  for (const secret of secretsOf(address)) if (secret) text = text.replaceAll(secret, '…')
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

/** Explains errors whose own message is misleading. */
function knownCause(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // Redis does not read a call as long as ours from a client that is not authenticated.
  if (/unauthenticated (multi)?bulk length/.test(error.message)) return 'NOAUTH a password is needed'
  if ('code' in error && NOT_TLS.has(error.code)) return 'it does not speak TLS'
  return undefined
}

function messageOf(error: unknown): string {
  // A host with several addresses gives one error for each of them, and no message of its own.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}

function secretsOf(address: RedisAddress): readonly (string | undefined)[] {
  return address.kind === 'sentinel' ? [address.password, address.sentinelPassword] : [address.password]
}
