import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { MAX_WAITING, READ_AHEAD, ReadHold } from './read-ahead.ts'

/** One request of a connection at a time: pipelined ones begin when the response before theirs is sent. */
export class RequestTurns {
  readonly #connections = new WeakMap<Socket, Connection>()
  readonly #maxWaiting: number
  #waiting = 0

  constructor(maxWaiting = MAX_WAITING) {
    this.#maxWaiting = maxWaiting
  }

  /** `begin` is called at once or later, or never where the connection ends before. */
  take({ socket }: IncomingMessage, res: ServerResponse, begin: () => void): void {
    const connection = this.#of(socket)
    if (connection.isBusy) return this.#wait(connection, res, begin)
    connection.current = res
    begin()
  }

  #of(socket: Socket): Connection {
    let connection = this.#connections.get(socket)
    if (connection === undefined) {
      connection = new Connection(socket)
      this.#connections.set(socket, connection)
      // A response that waits for its own turn on the connection does not learn of the end.
      socket.once('close', () => this.#forget(connection!))
    }
    return connection
  }

  #wait(connection: Connection, res: ServerResponse, begin: () => void): void {
    const { waiting, socket } = connection
    if (waiting.length >= READ_AHEAD && this.#waiting >= this.#maxWaiting) return void socket.destroy()
    if (waiting.length === 0) connection.current!.once('close', () => this.#next(connection))
    waiting.push({ res, begin })
    this.#waiting++
    if (waiting.length >= READ_AHEAD) connection.reading.hold()
  }

  #next(connection: Connection): void {
    const { waiting, socket } = connection
    // RFC 9112 9.6: nothing is processed behind the response that closes the connection.
    if (!socket.writable) return this.#forget(connection)
    const next = waiting.shift()
    if (next === undefined) return
    this.#waiting--
    connection.current = next.res
    if (waiting.length > 0) next.res.once('close', () => this.#next(connection))
    if (waiting.length < READ_AHEAD) connection.reading.release()
    next.begin()
  }

  #forget({ waiting }: Connection): void {
    this.#waiting -= waiting.length
    waiting.length = 0
  }
}

interface WaitingRequest {
  readonly res: ServerResponse
  readonly begin: () => void
}

class Connection {
  readonly socket: Socket
  readonly reading: ReadHold
  readonly waiting: WaitingRequest[] = []
  current: ServerResponse | undefined

  constructor(socket: Socket) {
    this.socket = socket
    this.reading = new ReadHold(socket)
  }

  get isBusy(): boolean {
    return this.waiting.length > 0 || this.current?.closed === false
  }
}
