import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Serves one request of a connection at a time: a pipelined one begins when the response before it is sent. */
export class RequestTurns {
  readonly #connections = new WeakMap<Socket, Connection>()
  readonly #maxWaiting: number
  #waiting = 0

  constructor(maxWaiting = MAX_WAITING) {
    this.#maxWaiting = maxWaiting
  }

  /** Calls `begin` now or later, or never if the connection ends before. */
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
      // A response that is still queued on the connection is not notified when the connection closes.
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
    // RFC 9112 9.6: nothing is processed after the response that closes the connection.
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

/**
 * With this many pipelined requests waiting, the connection is not read any further. With fewer it is, because a client that leaves is noticed
 * only while its connection is read. Node reads up to 64 KiB at a time and parses all of it: about 2,400 requests at most.
 */
export const READ_AHEAD = 16

/** Waiting requests on all connections of a worker, at about 1.5 KiB each. Beyond this, connections that exceed READ_AHEAD are cut. */
export const MAX_WAITING = 10_000

/** Pauses and resumes reading of a connection that `node:http` parses. */
export class ReadHold {
  readonly #socket: Socket
  #isHeld = false
  #hasBeenHeld = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  hold(): void {
    this.#isHeld = true
    this.#socket.pause()
    if (this.#hasBeenHeld) return
    this.#hasBeenHeld = true
    // Node resumes the socket after every message that it has parsed.
    this.#socket.on('resume', () => {
      if (this.#isHeld) this.#socket.pause()
    })
  }

  release(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#socket.resume()
  }
}
