import { BackendCall, type BackendHandler, type BackendRequest } from './backend-call.ts'
import { BackendConnection, type ConnectionUser } from './backend-connection.ts'

export interface BackendOptions {
  readonly url: URL
  readonly connectTimeoutMs: number
  readonly headersTimeoutMs: number
  readonly idleTimeoutMs: number
}

/** Backends close idle connections, and a request on its way then is lost: ours go first. */
const IDLE_MS = 4000
const HINT_MARGIN_MS = 1000

/** Where allowed requests go. Connections are used again, the youngest first, so that those that are not needed die. */
export class Backend {
  readonly options: BackendOptions
  readonly #onOpenConnections: (count: number) => void
  readonly #idle: BackendConnection[] = []
  readonly #open = new Set<BackendConnection>()
  #isClosed = false

  /** `onOpenConnections` hears how many there are, whenever that changes. */
  constructor(options: BackendOptions, onOpenConnections: (count: number) => void = () => {}) {
    this.options = options
    this.#onOpenConnections = onOpenConnections
  }

  send(request: BackendRequest, handler: BackendHandler): BackendCall {
    return new BackendCall(this, request, handler)
  }

  /** Ends all connections. */
  close(): void {
    this.#isClosed = true
    for (const connection of this.#open) connection.destroy()
    this.#open.clear()
    this.#onOpenConnections(0)
    this.#idle.length = 0
  }

  /** An idle connection, in use from now on. */
  reuse(user: ConnectionUser): BackendConnection | undefined {
    const connection = this.#idle.pop()
    connection?.use(user)
    return connection
  }

  connect(user: ConnectionUser): BackendConnection {
    const connection = new BackendConnection(this.options.url, this.options.connectTimeoutMs, user, (closed) => this.drop(closed))
    this.#open.add(connection)
    this.#onOpenConnections(this.#open.size)
    return connection
  }

  /** Keeps a connection for the next request. */
  giveBack(connection: BackendConnection): void {
    const restMs = connection.keepAliveMs === undefined ? IDLE_MS : connection.keepAliveMs - HINT_MARGIN_MS
    if (this.#isClosed || restMs <= 0) return this.drop(connection)
    connection.rest(restMs)
    this.#idle.push(connection)
  }

  /** Its socket belongs to somebody else now. */
  release(connection: BackendConnection): void {
    this.#open.delete(connection)
    this.#onOpenConnections(this.#open.size)
  }

  drop(connection: BackendConnection): void {
    connection.destroy()
    this.release(connection)
    const place = this.#idle.indexOf(connection)
    if (place >= 0) this.#idle.splice(place, 1)
  }
}
