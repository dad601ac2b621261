import { Redis, type RedisOptions } from 'ioredis'
import type { Deadlines } from './call.ts'
import type { Endpoint, RedisAddress } from './redis-address.ts'

/** Enough for V8 to take note of what is looked up. */
const LOOKUPS = 1000
keepStringsFast()

const SENTINEL_REPLY_MS = 1000
/** How long the server may take to close its end after us. */
const DISCONNECT_MS = 200

/** How long a connection is without traffic before the kernels of both ends exchange a packet. */
const KEEP_ALIVE_MS = 5000

/**
 * Options for ioredis that switch off everything that repeats commands: it connects on request, sends a command once or not at all, and
 * rejects pending commands as soon as the connection ends.
 */
const OPTIONS = {
  lazyConnect: true,
  // We reconnect ourselves: when a connection ends, ioredis then rejects everything in its queue instead of keeping it.
  retryStrategy: () => null,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: false,
  // Our probe says more than INFO, which needs rights of its own and gets no reply while Redis is loading.
  enableReadyCheck: false,
  autoResubscribe: false,
  protocol: 2,
  connectionName: 'edge',
  disableClientInfo: true,
  // The kernel notices a connection that somebody in between has forgotten, and keeps it remembered.
  keepAlive: KEEP_ALIVE_MS,
  // The users of the client have timeouts of their own, which give a reason.
  connectTimeout: 0,
  disconnectTimeout: DISCONNECT_MS,
} satisfies RedisOptions

/** Creates a client of one server, or of the master that sentinels name. It is not connected yet. */
export function createNodeClient(address: RedisAddress, endpoint: Endpoint | undefined): Redis {
  const { isTls, password } = address
  const username = userOf(address.username, password)
  const options = { ...OPTIONS, username, password, db: address.kind === 'cluster' ? 0 : address.db, tls: isTls ? {} : undefined }
  if (address.kind !== 'sentinel') return new Redis({ ...options, ...endpoint! })
  const { sentinels, name, sentinelUsername, sentinelPassword } = address
  return new Redis({
    ...options,
    sentinels: [...sentinels],
    name,
    sentinelUsername: userOf(sentinelUsername, sentinelPassword),
    sentinelPassword,
    sentinelTLS: options.tls,
    enableTLSForSentinelMode: isTls,
    sentinelCommandTimeout: SENTINEL_REPLY_MS,
    // This timeout applies to the sentinels, and to the master that they name.
    connectTimeout: CONNECT_STEP_MS,
    // One round over all sentinels is one attempt to connect.
    sentinelRetryStrategy: () => null,
  })
}

/**
 * A password without a user is that of the user `default`. If the user is named, a server that needs no password accepts both; otherwise it
 * returns an error, and ioredis prints a line of its own.
 */
function userOf(username: string | undefined, password: string | undefined): string | undefined {
  return username ?? (password === undefined ? undefined : 'default')
}

/** Disconnects the client. Resolves when its socket has closed, or has not closed in time. */
export async function endClient(client: Redis): Promise<void> {
  if (client.status === 'end' || client.status === 'wait') return
  const ended = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, 2 * DISCONNECT_MS)
    client.once('end', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  client.disconnect()
  await ended
}

/**
 * ioredis defines a class that extends String, upon which V8 turns String.prototype into a dictionary. Every call of a string method in the
 * thread then takes several times as long, and hashing a counter's key calls one for each character. When V8 looks up a property of a String
 * object in code that has run for a while, it turns the prototype back. Strings that are no objects would never make it do so.
 */
function keepStringsFast(): void {
  const text: { readonly missing?: unknown } = Object('')
  for (let i = 0; i < LOOKUPS; i++) if (text.missing !== undefined) return
}

/** How long each step to a connection may take. It is shorter than the circuit's quiet start, so that the first report has the reason. */
const CONNECT_STEP_MS = 1500

/** Ends an attempt to connect that hangs, with an error that names the step at which it did. */
export class ConnectWatch {
  readonly #client: Redis
  readonly #isTls: boolean
  readonly #deadlines: Deadlines
  #cancel: (() => void) | undefined

  /** `hasSentinels`: sentinels are asked before there is a connection, with timeouts of their own. */
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
    // The sockets are read once more before the check, because our own event loop may have been late.
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
