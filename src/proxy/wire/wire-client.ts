import type { Socket } from 'node:net'
import { MAX_REREAD_BYTES } from '../../http1/head-reader.ts'
import { RecentHead } from '../../http1/recent-head.ts'
import { INCOMPLETE, OTHER } from '../../http1/request-line.ts'
import type { ListenerTimeouts } from '../../listen/http-listener.ts'
import { malformedStatus } from '../../listen/plain-listener.ts'
import { READ_BUFFER, shareReads, unshared } from '../../listen/shared-reads.ts'
import { type FrontConnection, type FrontTimeouts, WireFront } from '../../listen/wire-front.ts'
import { malformedResponse } from '../downstream.ts'
import { MalformedChunks } from './chunked-frames.ts'
import { ClientDeadlines, type ClientState } from './client-deadlines.ts'
import { type PlainProxyRequest, plainRequest } from './request-head-reader.ts'
import { ReadPause, UnreadBytes } from './unread-bytes.ts'
import { WireBody } from './wire-body.ts'
import { WireContext, type WireHandlers } from './wire-context.ts'
import { WireDownstream } from './wire-downstream.ts'

/** With this many unread bytes, a connection is not read any further. Below that it is, because only reading reveals that a client has left. */
const READ_AHEAD_BYTES = 16 * 1024

/** Error messages as Node's parser words them. */
const ENDED = 'Parse Error'
const BEHIND_LAST = 'Parse Error: Data after `Connection: close`'

/** A client's connection for as long as it sends only plain requests. One request at a time is in progress; what follows it waits, undecided. */
class WireClient implements FrontConnection {
  readonly #context: WireContext
  readonly #socket: Socket
  readonly #onGone: (socket: Socket) => void
  /** Undefined if every read has a buffer of its own. */
  readonly #unshareReads: (() => void) | undefined
  readonly #unread: UnreadBytes
  readonly #body: WireBody
  readonly #downstream: WireDownstream
  readonly #pause: ReadPause
  readonly #deadlines: ClientDeadlines
  #state: ClientState = 'silent'
  readonly #recent = new RecentHead<PlainProxyRequest>()
  /** Number of bytes that were scanned for the incomplete head, repeated scans included. */
  #rereadBytes = 0
  /** The unread bytes had to wait for the response to an earlier request. */
  #isPipelined = false
  #isReading = false
  #isScheduled = false
  readonly #onData = (chunk: Buffer): void => this.#read(chunk, chunk.length)
  readonly #onEnd = (): void => this.#end()
  readonly #onDrain = (): void => this.#drained()
  readonly #onClose = (): void => this.#close()
  readonly #goOn = (): void => this.#readOn()

  /** `onGone` is called when the connection is closed, or given to `node:http`. */
  constructor(context: WireContext, socket: Socket, onGone: (socket: Socket) => void) {
    this.#context = context
    this.#socket = socket
    this.#onGone = onGone
    this.#unread = new UnreadBytes()
    this.#pause = new ReadPause(context, socket)
    this.#body = new WireBody(context, this.#unread, () => this.#schedule())
    this.#downstream = new WireDownstream(socket, {
      context,
      peer: context.handlers.peerOf(socket),
      body: this.#body,
      onEnded: () => this.#onResponded(),
      onDropped: () => this.#dropBody(),
    })
    this.#deadlines = new ClientDeadlines(socket, this.#body, this.#downstream)
    this.#unshareReads = shareReads(socket, (length) => this.#read(READ_BUFFER, length))
    // Even with shared reads, bytes that were put back arrive this way.
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', ignore)
    socket.on('close', this.#onClose)
  }

  get isServing(): boolean {
    return (this.#state === 'busy' && !this.#downstream.isEnded) || this.#socket.writableLength > 0
  }

  check(nowMs: number, timeouts: FrontTimeouts): void {
    const overdue = this.#deadlines.overdue(this.#state, nowMs, timeouts)
    if (overdue === 'head') this.#refuse('408 Request Timeout', 'Request timeout')
    else if (overdue !== undefined) this.#socket.destroy()
  }

  drain(): void {
    if (this.#state === 'silent' || this.#state === 'head') this.#handOver(this.#unread.take())
  }

  closeIfIdle(): void {
    if (this.#state === 'idle' && this.#unread.size === 0 && this.#socket.writableLength === 0) this.#socket.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** `chunk` may be the shared read buffer, so whatever is needed later is copied. */
  #read(chunk: Buffer, length: number): void {
    this.#body.idleSinceMs = this.#context.roughMs
    if (this.#state === 'closing') return
    if (this.#unread.size > 0) {
      this.#unread.add(chunk, 0, length)
      if (this.#state === 'head') this.#readOn()
    } else {
      const wasAnswered = this.#state === 'busy' && this.#downstream.isEnded
      const rest = this.#readBytes(chunk, 0, length)
      if (rest < length && this.#isOpen()) this.#unread.add(chunk, rest, length)
      this.#isPipelined = !wasAnswered
      if (this.#state === 'idle') this.#schedule()
    }
    if (this.#unread.size >= READ_AHEAD_BYTES) this.#stopReading()
  }

  /** Reads as much of the waiting bytes as is allowed now. */
  #readOn(): void {
    this.#isScheduled = false
    // A destroyed socket emits 'close' only later.
    if (this.#socket.destroyed) return
    const { buffer, at, end } = this.#unread
    if (at < end) {
      const rest = this.#readBytes(buffer, at, end)
      if (!this.#isOpen()) return this.#unread.clear()
      this.#unread.readTo(rest)
      if (this.#state === 'idle') this.#schedule()
    }
    if (this.#unread.size < READ_AHEAD_BYTES) this.#pause.end()
    if (this.#downstream.hasEnded) this.#checkEnd()
  }

  #isOpen(): boolean {
    return this.#state !== 'closing' && this.#state !== 'gone'
  }

  /** Reads what may be read now, and returns where that ends. */
  #readBytes(bytes: Buffer, from: number, end: number): number {
    let at = from
    this.#isReading = true
    while (at < end && this.#isOpen()) {
      if (this.#state === 'busy') {
        if (!this.#body.isFlowing || this.#body.isRead) break
        at = this.#readBody(bytes, at, end)
      } else {
        // Only one request of a pipeline is read in each turn of the event loop, so that other connections get their turns in between.
        if (at > from || this.#downstream.isBlocked) break
        at = this.#readHead(bytes, at, end)
        if (at === from) break
      }
    }
    this.#isReading = false
    return at
  }

  /** Returns where the head ends, or `from` if it is incomplete or left to `node:http`. */
  #readHead(bytes: Buffer, from: number, end: number): number {
    if (this.#body.isLast) {
      this.#refuse('400 Bad Request', BEHIND_LAST)
      return end
    }
    const { reader, handlers, isDraining } = this.#context
    const recent = isDraining ? undefined : this.#recent.find(bytes, from, end)
    const next = isDraining ? OTHER : recent === undefined ? reader.read(bytes, from, end) : from + this.#recent.length
    if (next === INCOMPLETE && this.#awaitHead(end - from)) return from
    const plain = recent ?? (next < 0 ? undefined : plainRequest(reader.received))
    if (plain === undefined || handlers.isOwn(plain.path)) {
      this.#handOver(bytes.subarray(from, end))
      return from
    }
    const { request } = plain
    const isPipelined = this.#isPipelined && this.#state === 'idle' && bytes === this.#unread.buffer
    this.#isPipelined = true
    this.#state = 'busy'
    this.#deadlines.onRequest()
    this.#rereadBytes = 0
    if (recent === undefined) this.#recent.keep(reader.text, plain)
    this.#body.begin(request.contentLength ?? 0, request.isChunked)
    this.#downstream.begin(plain.received)
    // Bytes that have waited may already be known to be malformed; then the request never begins.
    if (isPipelined && !this.#canBeBody(bytes, next, end)) return next
    this.#body.announce(bytes, next, end)
    handlers.handle(request, this.#downstream)
    this.#body.endAnnouncement()
    return next
  }

  #canBeBody(bytes: Buffer, from: number, end: number): boolean {
    try {
      this.#body.endsWithin(bytes, from, end)
      return true
    } catch (error) {
      this.#refuseMalformed(error)
      return false
    }
  }

  /** Returns false if the head has been read again too often. */
  #awaitHead(bytes: number): boolean {
    this.#rereadBytes += bytes
    if (this.#rereadBytes > MAX_REREAD_BYTES) return false
    this.#deadlines.onPartOfHead(this.#state === 'idle', this.#context.roughMs)
    this.#state = 'head'
    return true
  }

  /** Returns where the available part of the body ends. */
  #readBody(bytes: Buffer, from: number, end: number): number {
    try {
      const next = this.#body.read(bytes, from, end)
      if (this.#body.isRead && this.#downstream.isEnded) this.#complete()
      return next
    } catch (error) {
      this.#refuseMalformed(error)
      return end
    }
  }

  #refuseMalformed(error: unknown): void {
    if (!(error instanceof MalformedChunks)) throw error
    this.#refuseBody(malformedStatus(error), `Parse Error: ${error.message}`)
  }

  /** To be called when the whole response has been written. */
  #onResponded(): void {
    if (this.#state !== 'busy') return
    if (this.#body.isRead) return this.#complete()
    if (!this.#body.isDropped && this.#downstream.isLast) return this.#closeSoon()
    this.#dropBody()
    // After the last response, the rest is still read for a while: otherwise the client might be reset before it has read the response (RFC 9112 9.6).
    if (this.#downstream.isLast) this.#socket.end()
  }

  /** Discards the rest of the body, which nobody wants but which comes before the next request. */
  #dropBody(): void {
    if (this.#body.isRead || this.#body.isDropped) return
    this.#deadlines.onBodyDropped(this.#downstream.dropStallMs)
    this.#body.drop()
  }

  /** To be called when the request has been read and its response written, both to the end. */
  #complete(): void {
    this.#deadlines.onComplete(this.#context.roughMs)
    if (this.#downstream.isLast) return this.#closeSoon()
    this.#state = 'idle'
    if (this.#isReading) return
    if (this.#unread.size > 0) this.#schedule()
    else if (this.#downstream.hasEnded) this.#checkEnd()
  }

  /** Continues with the waiting bytes in a later turn of the event loop. */
  #schedule(): void {
    if (this.#isReading || this.#isScheduled || this.#downstream.isBlocked || (this.#unread.size === 0 && !this.#pause.isOn)) return
    this.#isScheduled = true
    setImmediate(this.#goOn)
  }

  #drained(): void {
    this.#downstream.onDrain()
    if (this.#state === 'idle') this.#schedule()
  }

  #stopReading(): void {
    if (this.#isOpen()) this.#pause.begin(this.#body.isRead ? this.#unread.size : 0)
  }

  #end(): void {
    this.#downstream.onClientEnded()
    if (!this.#isScheduled) this.#checkEnd()
  }

  /** To be called when the client has ended its side and everything that can be read for now was read. */
  #checkEnd(): void {
    if (this.#state === 'head') this.#refuse('400 Bad Request', ENDED)
    else if (this.#state === 'busy') {
      if (!this.#body.isComplete) this.#refuseBody('400 Bad Request', ENDED)
    } else if (this.#isOpen() && this.#unread.size === 0) this.#closeSoon()
  }

  /** Refuses a body that is malformed, or will never be complete. */
  #refuseBody(status: string, detail: string): void {
    const { isHeadSent, isEnded } = this.#downstream
    // A response that has begun cannot be replaced, but one that is complete can be followed by another.
    if ((isHeadSent && !isEnded) || !this.#socket.writable) this.#socket.destroy()
    else this.#refuse(status, detail)
  }

  #refuse(status: string, detail: string): void {
    this.#context.handlers.noteMalformed(detail)
    this.#state = 'closing'
    this.#deadlines.onRefused()
    this.#socket.end(malformedResponse(status, 'the request is malformed'), 'latin1')
    this.#letGo()
    this.#downstream.onClientGone()
  }

  #closeSoon(): void {
    const hasMore = this.#pause.isOn
    this.#state = 'closing'
    this.#letGo()
    // What is left unread is read and discarded for a while: otherwise the client might be reset before it has read its response (RFC 9112 9.6).
    if (hasMore) this.#socket.end()
    else this.#socket.destroySoon()
  }

  /** Drops the waiting bytes, which are not needed any more. */
  #letGo(): void {
    this.#unread.clear()
    this.#pause.end()
  }

  #close(): void {
    this.#state = 'gone'
    this.#unread.clear()
    this.#pause.end()
    this.#onGone(this.#socket)
    this.#downstream.onClientGone()
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket
    this.#state = 'gone'
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('error', ignore)
    socket.off('close', this.#onClose)
    this.#unshareReads?.()
    this.#onGone(socket)
    this.#context.handOver(socket)
    giveBack(socket, bytes, this.#downstream.hasEnded)
    this.#pause.end()
  }
}

function ignore(): void {
  // 'close' follows
}

export type ProxyWire = WireFront<WireClient>

/**
 * Returns the proxy's own wire.
 * `silenceMs`: how long a client may be silent in the middle of a request, or take nothing of its response; 0 means no limit.
 */
export function newProxyWire(timeouts: ListenerTimeouts, silenceMs: number, handlers: WireHandlers): ProxyWire {
  const context = new WireContext(timeouts.keepAliveMs, silenceMs, handlers)
  return new WireFront(timeouts, context, (socket, onGone) => new WireClient(context, socket, onGone), silenceMs)
}

/** Makes a socket that is handed over emit once more what was read from it, before anything that is still to be read. */
function giveBack(socket: Socket, bytes: Buffer, hasEnded: boolean): void {
  const own = unshared(bytes)
  if (!hasEnded) {
    if (own.length > 0) socket.unshift(own)
    return
  }
  // An ended stream accepts nothing back, so its events are emitted again.
  socket.emit('data', own)
  socket.emit('end')
}
