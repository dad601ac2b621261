import type { IncomingMessage, ServerResponse } from 'node:http'
import { type BodyReader, type BodySource, LINGER_MS } from '../downstream.ts'

/** The body of a request that Node has parsed. */
export class NodeBody implements BodySource {
  readonly #req: IncomingMessage
  #reader: BodyReader | undefined
  #isStarted = false
  readonly comesNext = false
  isGone: boolean

  constructor(req: IncomingMessage, isGone: boolean) {
    this.#req = req
    this.isGone = isGone
  }

  get isComplete(): boolean {
    return this.#req.complete
  }

  get isRead(): boolean {
    return this.#req.readableEnded
  }

  giveTo(reader: BodyReader | undefined): void {
    this.#reader = reader
    // A stream emits 'end' only once.
    if (reader !== undefined && this.isRead) process.nextTick(() => this.#tell('onEnd'))
  }

  pause(): void {
    this.#req.pause()
  }

  resume(): void {
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#req.on('data', (chunk: Buffer) => this.#onData(chunk))
      this.#req.on('end', () => this.#tell('onEnd'))
    }
    this.#req.resume()
  }

  limitIdle(ms: number): void {
    this.#req.setTimeout(ms)
  }

  /** To be called when the connection is closed. */
  onGone(): void {
    this.isGone = true
    this.#tell('onGone')
  }

  #onData(chunk: Buffer): void {
    const reader = this.#reader
    try {
      reader?.onData(chunk)
    } catch (error) {
      reader?.abandon(error)
    }
  }

  #tell(callback: 'onEnd' | 'onGone'): void {
    const reader = this.#reader
    try {
      reader?.[callback]()
    } catch (error) {
      reader?.abandon(error)
    }
  }
}

/**
 * To be called when a response is sent before the whole request has arrived. The rest of the request comes before the next one, and closing the
 * connection on it would reset the client before it has read the response (RFC 9112 9.6), so it is read and discarded for a while. `stallMs` bounds
 * a client that does not take the response either; 0 means no bound.
 */
export function dropRest(req: IncomingMessage, res: ServerResponse, stallMs: number): void {
  if (req.complete) return
  const { socket } = req
  const cut = (): void => void socket.destroy()
  let timer = stallMs > 0 ? setTimeout(cut, stallMs) : undefined
  // After the last response on a connection, Node would close the socket at once; for now, only our side is ended.
  socket.destroySoon = () => void socket.end()
  const stop = (): void => {
    clearTimeout(timer)
    res.off('finish', onSent)
    req.off('end', onWhole).off('close', stop)
    Reflect.deleteProperty(socket, 'destroySoon')
  }
  const onSent = (): void => {
    clearTimeout(timer)
    timer = setTimeout(cut, LINGER_MS)
  }
  const onWhole = (): void => {
    stop()
    if (socket.writableEnded) socket.destroySoon()
  }
  res.once('finish', onSent)
  req.once('end', onWhole).once('close', stop).resume()
}
